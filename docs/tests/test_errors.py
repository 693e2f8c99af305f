"""The page of errors quotes messages that exist, beside errors that are those of its wheels."""

from __future__ import annotations

import ast
import builtins
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "errors.md"
WHEEL = re.compile(r"^## .*\(`towerpack_(\w+)`\)$")
ROW = re.compile(r"^\| `(\w+)` \| `(.+?)` \| (?:[^|]+) \|$")
VARIES = "…"


def rows():
    wheel = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if heading := WHEEL.match(line):
            wheel = heading[1]
        elif line.startswith("| `"):
            row = ROW.match(line)
            assert row, f"a row of {PAGE.name} that is not `error`, `message`, cause: {line}"
            yield wheel, row[1], row[2]


@functools.cache
def sources(wheel):
    folder = ROOT / "packages" / wheel / "src" / f"towerpack_{wheel}"
    return [ast.parse(path.read_text(encoding="utf-8")) for path in folder.rglob("*.py")]


@functools.cache
def texts(wheel):
    """All texts in the sources of a wheel, with `…` where a value is put into them."""
    nodes = [node for tree in sources(wheel) for node in ast.walk(tree)]
    whole = ["".join(map(piece, node.values)) for node in nodes if isinstance(node, ast.JoinedStr)]
    plain = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return "\0".join(whole + plain).replace("\n", " ")


def piece(node):
    return node.value if isinstance(node, ast.Constant) else VARIES


@functools.cache
def classes(wheel):
    trees = sources(wheel)
    return {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


@pytest.mark.parametrize(("wheel", "error", "message"), list(rows()))
def test_the_message_is_in_the_sources(wheel, error, message):
    fixed = [part for part in re.split(f"{VARIES}+", message) if part.strip(" :;.,()[]")]
    pattern = r"[^\0]*?".join(map(re.escape, fixed))
    assert re.search(pattern, texts(wheel)), f"no text of towerpack_{wheel} says: {message}"
    assert error in classes(wheel) or hasattr(builtins, error), f"towerpack_{wheel} has no {error}"


def test_the_page_is_of_all_wheels():
    listed = list(rows())
    assert {wheel for wheel, _, _ in listed} == {
        "dataflow",
        "inputsource",
        "layers",
        "callbacks",
        "trainers",
    }
    assert len(listed) >= 35
