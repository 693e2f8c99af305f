"""Names with a word that the glossary has replaced, for `dialect.py`."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from source_files import ROOT

__all__ = ["api_classes", "api_names", "file_names", "outdated", "replaced_words"]

_HEADING = "## Replaced words"
_QUOTED = re.compile(r"`(\w+)`")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def replaced_words(page: Path = ROOT / "docs" / "glossary.md") -> tuple[dict[str, str], set[str]]:
    """Reads the table of replaced words.

    Returns:
        The present word for each replaced one, and the public names of the last release that may have such a
        word.
    """
    words: dict[str, str] = {}
    released: set[str] = set()
    for row in page.read_text(encoding="utf-8").partition(_HEADING)[2].splitlines():
        if row.startswith("| `"):
            replaced, now, names = row.strip("|").split("|")
            words.update(dict.fromkeys(_QUOTED.findall(replaced), now.strip()))
            released.update(_QUOTED.findall(names))
    return words, released


def file_names() -> Iterator[tuple[str, str]]:
    """Yields the path of each file of the repository, and the names in it."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True)
    for path in listed.stdout.splitlines():
        for name in Path(path).parts:
            yield path, name


def api_names() -> Iterator[tuple[str, str]]:
    """Yields each public name, and the names in it and in its signature."""
    for path in sorted((ROOT / "api").glob("*.json")):
        for public, signature in json.loads(path.read_text(encoding="utf-8")).items():
            for name in re.findall(r"\w+", f"{public} {signature}"):
                yield public, name


def api_classes() -> set[str]:
    """Returns the public classes, each with its module."""
    entries = chain.from_iterable(
        json.loads(path.read_text(encoding="utf-8")).items() for path in (ROOT / "api").glob("*.json")
    )
    return {name for name, kind in entries if kind.startswith("class")}


def outdated(names: Iterable[tuple[str, str]], words: dict[str, str], released: set[str]) -> Iterator[str]:
    """Yields a line for each name with a replaced word.

    Args:
        names: where each name is, and the name.
        words: the present word for each replaced one.
        released: names that may have a replaced word.
    """
    for place, name in names:
        parts = "_".join(_PART.findall(name)).lower()
        for word, now in words.items():
            if name not in released and f"_{word}_" in f"_{parts}_":
                yield f"{place}: {name!r} has {word!r}, which docs/glossary.md has replaced by {now}"
