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

from towerpack_compat.migrate import read_calls, read_names

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


TABLE = read_names()


def test_the_command_knows_each_name():
    assert set(NAMES) <= set(TABLE.entries)


@pytest.mark.parametrize("entry", TABLE.entries.values(), ids=TABLE.entries)
def test_page_and_command_agree_on_each_name(entry):
    rights = [right for left, right in rows() if entry.name in left]
    assert rights, f"no row has `{entry.name}` on its left"
    written = entry.counterpart
    if written is None:
        assert entry.section in anchors()
        assert entry.name not in ours() or not any(right.startswith("the same") for right in rights)
    elif written.name == entry.name:
        assert any(right.startswith("the same") or entry.name in quoted(right) for right in rights), rights
    else:
        assert any(written.name in quoted(right) for right in rights), (written.name, rights)


@pytest.mark.parametrize("entry", TABLE.entries.values(), ids=TABLE.entries)
def test_what_the_command_writes_can_be_imported(entry):
    if entry.counterpart is not None:
        assert hasattr(importlib.import_module(entry.counterpart.module), entry.counterpart.name)


@cache
def anchors() -> frozenset[str]:
    """The sections of the page, as links name them."""
    titles = re.findall(r"^##+ (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return frozenset("#" + re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles)


def test_each_section_that_the_command_names_is_there():
    changes = read_calls().values()
    named = {section for change in changes for section in [*change.hand.values(), change.changed] if section}
    sources = Path(importlib.import_module("towerpack_compat.migrate").__file__).parent.glob("*.py")
    named |= {name for path in sources for name in re.findall(r'"(#[a-z-]+)"', path.read_text("utf-8"))}
    assert named and named <= anchors(), named - anchors()
