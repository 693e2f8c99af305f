"""What became of each public name of Tensorpack, as the tables of `names` say it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, final

import attrs

from ... import names

__all__ = [
    "CallChange",
    "Counterpart",
    "Entry",
    "NameTable",
    "read_calls",
    "read_names",
    "read_tensorflow_names",
]


@final
@attrs.frozen
class Counterpart:
    """A name of the five wheels, and the module that it is imported from."""

    module: str
    name: str

    @classmethod
    def of(cls, text: str) -> Counterpart:
        """Reads "module:name"."""
        module, _, name = text.partition(":")
        return cls(module, name)


@final
@attrs.frozen
class Entry:
    """One name of Tensorpack.

    Args:
        name: the name.
        module: its module there, below `tensorpack`, such as "dataflow.imgaug".
        counterpart: what is written for it now; None where that is work for a person.
        section: the section of the page about it, such as "#names".
    """

    name: str
    module: str
    counterpart: Counterpart | None
    section: str = "#names"


@final
@attrs.frozen
class NameTable:
    """All names of Tensorpack.

    Args:
        entries: the names.
        star: the modules whose names `from tensorpack import *` gives.
        star_modules: the modules that it gives, by the names that they have then.
    """

    entries: Mapping[str, Entry]
    star: frozenset[str]
    star_modules: Mapping[str, str]

    def full_path(self, path: str) -> str:
        """Returns the path of a name by its own module, where it is named by one that has it, too."""
        package, _, rest = path.partition(".")
        first, dot, below = rest.partition(".")
        if package != "tensorpack" or first not in self.star_modules:
            return path
        return f"tensorpack.{self.star_modules[first]}{dot}{below}"

    def given_by_star(self, module: str) -> Iterator[Entry]:
        """Yields the names that `from <module> import *` gives, such as "tensorpack.dataflow"."""
        below = module.removeprefix("tensorpack").removeprefix(".")
        modules = {entry.module for entry in self.entries.values()}
        wanted = {below} if below in modules else {below.split(".")[0]}
        for entry in self.entries.values():
            if entry.module in (wanted if below else self.star):
                yield entry


def _words(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(values)


@final
@attrs.frozen
class CallChange:
    """How the arguments of a call change; `calls.toml` says what each field means."""

    old: tuple[str, ...] = attrs.field(default=(), converter=_words)
    new: tuple[str, ...] = attrs.field(default=(), converter=_words)
    rename: Mapping[str, str] = attrs.Factory(dict)
    drop: tuple[str, ...] = attrs.field(default=(), converter=_words)
    hand: Mapping[str, str] = attrs.Factory(dict)
    wrap: Mapping[str, str] = attrs.Factory(dict)
    add: Mapping[str, str] = attrs.Factory(dict)
    changed: str = ""


@cache
def read_names() -> NameTable:
    """Returns the table of names."""
    table = _read("names.toml")
    entries = [
        _entry(name, module, text) for module, texts in table["names"].items() for name, text in texts.items()
    ]
    return NameTable(
        {entry.name: entry for entry in entries}, frozenset(table["star"]), table["star_modules"]
    )


def _entry(name: str, module: str, text: str) -> Entry:
    if text.startswith("#"):
        return Entry(name, module, None, text)
    return Entry(name, module, Counterpart.of(text))


@cache
def read_calls() -> Mapping[str, CallChange]:
    """Returns the calls whose arguments differ, by Tensorpack's name of what is called."""
    table = _read("calls.toml")
    return {name: CallChange(**table[rule.get("like", name)]) for name, rule in table.items()}


@cache
def read_tensorflow_names() -> Mapping[str, Counterpart | str]:
    """Returns what is written for names that TensorFlow has no more, or the section about them."""
    table = _read("tensorflow.toml")
    written = {name: Counterpart.of(text) for name, text in table["rewritten"].items()}
    return {**table["by_hand"], **written}


def _read(file: str) -> dict[str, Any]:
    return tomllib.loads(files(names).joinpath(file).read_text(encoding="utf-8"))
