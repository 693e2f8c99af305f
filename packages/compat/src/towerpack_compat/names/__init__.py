"""The tables of Tensorpack's public names: module, counterpart, and changes of arguments."""

from __future__ import annotations

import functools
import tomllib
from importlib import resources
from typing import Any

__all__ = [
    "areas",
    "call_rules",
    "counterparts",
    "module_names",
    "numpy_table",
    "own_names",
    "star_modules",
    "star_names",
]


@functools.cache
def _table(name: str) -> dict[str, Any]:
    text = resources.files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@functools.cache
def counterparts() -> dict[str, str]:
    """Returns, for each name of Tensorpack, its place in Towerpack, or "#section" without a counterpart."""
    return {name: place for area in areas().values() for name, place in area.items()}


def areas() -> dict[str, dict[str, str]]:
    """Returns the counterparts by the packages and modules of Tensorpack."""
    return dict(_table("names")["names"])


def star_modules() -> dict[str, str]:
    """Returns the modules that `from tensorpack import *` imports, by their names."""
    return dict(_table("names")["star_modules"])


@functools.cache
def own_names() -> dict[str, str]:
    """Returns the module of this package that implements a name."""
    return {name: module for module, names in _table("own").items() for name in names}


def call_rules() -> dict[str, dict[str, Any]]:
    """Returns the changes of the arguments of calls, by the name of the function or class."""
    return _table("calls")


@functools.cache
def module_names() -> dict[str, list[str]]:
    """Returns the public names of each module and package of Tensorpack.

    A package has the names of all its modules.
    """
    found = {module: [*entry["all"], *entry.get("more", ())] for module, entry in _table("modules").items()}
    for module, names in [*found.items()]:
        parent = module.rpartition(".")[0]
        while parent:
            found.setdefault(parent, []).extend(names)
            parent = parent.rpartition(".")[0]
    return found


def numpy_table() -> dict[str, dict[str, Any]]:
    """Returns the names that NumPy removed, and their replacements in Python and in NumPy."""
    return _table("numpy")


def star_names(package: str) -> list[str]:
    """Returns the names that `from tensorpack.<package> import *` imports.

    Args:
        package: a package or module of Tensorpack; "" for Tensorpack itself.
    """
    table = _table("modules")
    if package in table:
        return list(table[package]["all"])
    packages = _table("stars")
    if not package:
        return [*packages["modules"], *(name for part in packages["packages"] for name in star_names(part))]
    inside = [entry for entry in table if entry.startswith(f"{package}.")]
    wanted = packages.get(package, inside)
    return [
        *packages["modules_of"].get(package, ()),
        *(name for part in wanted for name in table[part]["all"]),
    ]
