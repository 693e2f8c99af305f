"""The page for users of Tensorpack names each of its public names, and ours for it, which can be imported."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PAGE = HERE.parent / "migrating-from-tensorpack.md"
# By its modules, from the `__all__` of Tensorpack 0.11.
LINES = (HERE / "tensorpack_names.txt").read_text(encoding="utf-8").split()
NAMES = [line for line in LINES if not line.startswith("[")]
WHEELS = ("dataflow", "inputsource", "layers", "callbacks", "trainers")


@cache
def ours() -> frozenset[str]:
    """All public names of the five wheels."""
    return frozenset(name for wheel in WHEELS for name in public_names(f"towerpack_{wheel}"))


def public_names(package: str) -> Iterator[str]:
    """The names of a package and of those below it."""
    root = importlib.import_module(package)
    below = [module.name for module in pkgutil.walk_packages(root.__path__, f"{package}.")]
    for name in [package, *(name for name in below if "._" not in name and ".__" not in name)]:
        with suppress(ImportError):  # of PyTorch and others, which are not installed for this
            yield from getattr(importlib.import_module(name), "__all__", ())


@cache
def rows() -> list[tuple[set[str], str]]:
    """The names on the left of each row, and what is on its right."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    cells = [line.strip("| ").split(" | ") for line in lines]
    return [(set(quoted(each[0])), each[1].strip()) for each in cells if len(each) > 1]


def quoted(cell: str) -> list[str]:
    """The identifiers in backticks."""
    return re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", cell)))


def is_true(name: str, right: str) -> bool:
    """Whether the right of a row leads on: to the same name, to one of ours, or to a reason in words."""
    if right.startswith("the same"):
        return name in ours()
    return (right.startswith("none") and len(right.split()) > 2) or not ours().isdisjoint(quoted(right))


@pytest.mark.parametrize("name", NAMES)
def test_each_name_of_tensorpack_has_a_true_row(name):
    found = [right for left, right in rows() if name in left]
    assert found, f"no row has `{name}` on its left"
    assert any(is_true(name, right) for right in found), found


def test_no_row_says_the_same_of_what_is_not_there():
    same = {name for left, right in rows() if right.startswith("the same") for name in left}
    names = same.intersection(NAMES)
    assert names <= ours(), names - ours()


def test_a_name_that_is_nowhere_would_be_noticed():
    assert len(NAMES) == len(set(NAMES)) == 367
    assert not is_true("NoSuchName", "the same") and not is_true("NoSuchName", "`NoSuchName`")
