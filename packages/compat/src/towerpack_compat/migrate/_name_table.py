"""The counterpart of each public name of Tensorpack, from the tables of `names`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import final

import attrs

from ..names import areas, call_rules, module_names, own_names, star_modules, star_names

__all__ = ["CallChange", "Counterpart", "Entry", "NameTable", "read_calls", "read_names"]

_STAR = ("callbacks", "dataflow", "input_source", "models", "predict", "tfutils", "train", "utils")
_NAMES_OF_THEIR_OWN = ("utils.logger", "compat", "libinfo", "tfv1")


@final
@attrs.frozen
class Counterpart:
    """A name of Towerpack, and the module to import it from."""

    module: str
    name: str


@final
@attrs.frozen
class Entry:
    """One name of Tensorpack.

    Args:
        name: the name.
        module: its module below `tensorpack`, such as "dataflow.imgaug".
        counterpart: Towerpack's name for it; None without a counterpart.
        section: the section of the page about it, such as "#names".
    """

    name: str
    module: str
    counterpart: Counterpart | None
    section: str = "#names"

    @property
    def is_equal(self) -> bool:
        """Whether `towerpack_compat` provides the counterpart itself, or differs only in arguments."""
        return (
            self.counterpart is not None
            and (self.name not in own_names() or self.name in _REWRITTEN)
            and not self.counterpart.module.startswith("towerpack_inputsource")
        )

    @property
    def is_lost(self) -> bool:
        """Whether `towerpack_compat` has no counterpart either."""
        return self.counterpart is None and self.name not in own_names()


# Uses of the random numbers of `self.rng` are rewritten, too. Towerpack's `BatchData` rejects components of
# mixed types by an error, where Tensorpack casts them; its augmentors, images of other integers than uint8.
# `ProcessTensors(names, print)` prints values without names.
_OF_IMAGES = ("AugmentImageComponent", "AugmentImageComponents", "AugmentImageCoordinates", "AugmentorList")
_REWRITTEN = {"BatchData", "RNGDataFlow", "TensorPrinter", "add_moving_summary", *_OF_IMAGES}


@final
@attrs.frozen
class NameTable:
    """All names of Tensorpack.

    Args:
        entries: the names.
    """

    entries: Mapping[str, Entry]

    def full_path(self, path: str) -> str:
        """Returns the full path for a path through a module that `from tensorpack import *` imports."""
        package, _, rest = path.partition(".")
        first, dot, below = rest.partition(".")
        if package != "tensorpack" or first not in star_modules():
            return path
        return f"tensorpack.{star_modules()[first]}{dot}{below}"

    def given_by_star(self, module: str) -> Iterator[tuple[str, str]]:
        """Yields the names that `from <module> import *` binds, and their paths."""
        below = module.removeprefix("tensorpack").removeprefix(".")
        # The names of 0.11, and names of older releases in the same module.
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
        """Returns whether `towerpack_compat` resolves a path without the table of names."""
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


@final
@attrs.frozen
class CallChange:
    """Changes of the arguments of a call; `calls.toml` describes the fields."""

    old: tuple[str, ...] = attrs.field(default=(), converter=tuple)
    new: tuple[str, ...] = attrs.field(default=(), converter=tuple)
    rename: Mapping[str, str] = attrs.Factory(dict)
    drop: tuple[str, ...] = attrs.field(default=(), converter=tuple)
    stays: tuple[str, ...] = attrs.field(default=(), converter=tuple)
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
    """Returns the calls with different arguments, by Tensorpack's name of the function or class."""
    table = call_rules()
    return {name: CallChange(**table[rule.get("like", name)]) for name, rule in table.items()}
