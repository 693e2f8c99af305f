"""What became of each public name of Tensorpack, as the tables of `names` say it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import final

import attrs

from ...names import areas, call_rules, module_names, own_names, star_modules, star_names

__all__ = ["CallChange", "Counterpart", "Entry", "NameTable", "read_calls", "read_names"]

_STAR = ("callbacks", "dataflow", "input_source", "models", "predict", "tfutils", "train", "utils")
_NAMES_OF_THEIR_OWN = ("utils.logger", "compat", "libinfo", "tfv1")


@final
@attrs.frozen
class Counterpart:
    """A name of Towerpack, and the module that it is imported from."""

    module: str
    name: str


@final
@attrs.frozen
class Entry:
    """One name of Tensorpack.

    Args:
        name: the name.
        module: its module there, below `tensorpack`, such as "dataflow.imgaug".
        counterpart: Towerpack's name for it; None where there is none.
        section: the section of the page about it, such as "#names".
    """

    name: str
    module: str
    counterpart: Counterpart | None
    section: str = "#names"

    @property
    def is_equal(self) -> bool:
        """Whether the counterpart is what `towerpack_compat` gives, or differs in arguments alone."""
        return (
            self.counterpart is not None
            and (self.name not in own_names() or self.name in _REWRITTEN)
            and not self.counterpart.module.startswith("towerpack_inputsource")
        )

    @property
    def is_lost(self) -> bool:
        """Whether `towerpack_compat` has nothing for it, either."""
        return self.counterpart is None and self.name not in own_names()


# What programs do with these is rewritten, too: the random numbers of `self.rng`.
_REWRITTEN = {"RNGDataFlow"}


@final
@attrs.frozen
class NameTable:
    """All names of Tensorpack.

    Args:
        entries: the names.
    """

    entries: Mapping[str, Entry]

    def full_path(self, path: str) -> str:
        """Returns the path of a name by its own module, where it is named by one that has it, too."""
        package, _, rest = path.partition(".")
        first, dot, below = rest.partition(".")
        if package != "tensorpack" or first not in star_modules():
            return path
        return f"tensorpack.{star_modules()[first]}{dot}{below}"

    def given_by_star(self, module: str) -> Iterator[tuple[str, str]]:
        """Yields the names that `from <module> import *` gives, and their paths."""
        below = module.removeprefix("tensorpack").removeprefix(".")
        # Those of 0.11, and names that older releases had in the same place.
        older = [
            name for name, entry in self.entries.items() if entry.module in ({below} if below else _STAR)
        ]
        for name in dict.fromkeys([*star_names(below), *older]):
            entry = self.entries.get(name)
            if entry is not None:
                yield name, f"tensorpack.{entry.module}.{name}"
            else:
                yield name, self.full_path(f"tensorpack.{name}")

    def has_names_of_its_own(self, path: str) -> bool:
        """Returns whether a path is one that `towerpack_compat` resolves without the table of names."""
        below = path.removeprefix("tensorpack.")
        inside = any(below == each or below.startswith(f"{each}.") for each in _NAMES_OF_THEIR_OWN)
        return inside or (
            path.rpartition(".")[2] in own_names() and path.rpartition(".")[2] not in self.entries
        )

    def is_known(self, path: str) -> bool:
        """Returns whether `towerpack_compat` has a module or a name with this path."""
        module, _, name = path.rpartition(".")
        if self.is_module(path) or self.has_names_of_its_own(path):
            return True
        return self.is_module(module) and (name in self.entries or name in own_names())

    def is_module(self, path: str) -> bool:
        """Returns whether Tensorpack has a module with this path."""
        below = path.removeprefix("tensorpack").removeprefix(".")
        return not below or below in module_names()


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
    entries = [_entry(name, area, text) for area, texts in areas().items() for name, text in texts.items()]
    return NameTable({entry.name: entry for entry in entries})


def _entry(name: str, module: str, text: str) -> Entry:
    if text.startswith("#"):
        return Entry(name, module, None, text)
    place, _, attribute = text.partition(":")
    return Entry(name, module, Counterpart(place, attribute))


@cache
def read_calls() -> Mapping[str, CallChange]:
    """Returns the calls whose arguments differ, by Tensorpack's name of what is called."""
    table = call_rules()
    return {name: CallChange(**table[rule.get("like", name)]) for name, rule in table.items()}
