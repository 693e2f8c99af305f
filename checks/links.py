"""Checks that links inside the repository lead to files and headings that exist, in all its Markdown files.

`python checks/links.py` prints one line for each finding and exits with status 1 if there is one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from source_files import ROOT, report

__all__ = ["Link", "anchors", "broken", "links", "pages"]

# Those of environments and of builds are not ours; those of the site are put among others when it is built.
_NOT_OURS = {"dist", "build", "node_modules", "site", "train_log"}
_FENCED = re.compile(r"^(\s*)(`{3,}|~{3,}).*?^\s*\2`*[ \t]*$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
_INLINE = re.compile(r"\]\(\s*<?([^()\s<>]+(?:\([^()\s]*\)[^()\s<>]*)*)>?(?:\s+\"[^\"]*\")?\s*\)")
_REFERENCE = re.compile(r"^\s{0,3}\[[^\]]+\]:\s*<?(\S+?)>?(?:\s|$)", re.MULTILINE)
_ADDRESS = re.compile(r"^[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_HEADING = re.compile(r"^\s{0,3}#{1,6}\s+(.*?)\s*#*\s*$", re.MULTILINE)
_NAMED = re.compile(r"<a\s+(?:id|name)=\"([^\"]+)\"|^\(([\w-]+)\)=\s*$", re.MULTILINE)


class Link(NamedTuple):
    """A link of a page.

    Attributes:
        page: the page.
        line: its line, from 1.
        target: the text in the parentheses.
    """

    page: Path
    line: int
    target: str

    @property
    def is_address(self) -> bool:
        """Whether it leads out of the repository."""
        return bool(_ADDRESS.match(self.target))


def main() -> None:
    """Runs the check over all pages."""
    report(finding for page in pages(ROOT) for finding in broken(page, ROOT))


def pages(root: Path) -> list[Path]:
    """Returns all Markdown files of a repository."""
    found = (path for path in root.rglob("*.md") if not _NOT_OURS.intersection(path.relative_to(root).parts))
    return sorted(path for path in found if not any(part[0] == "." for part in path.relative_to(root).parts))


def links(page: Path) -> Iterator[Link]:
    """Yields the links of a page, pictures among them, and none that stands in code."""
    text = _without_code(page.read_text(encoding="utf-8"))
    for found in (*_INLINE.finditer(text), *_REFERENCE.finditer(text)):
        yield Link(page, text.count("\n", 0, found.start(1)) + 1, found[1])


def broken(page: Path, root: Path) -> Iterator[str]:
    """Yields a line for each link of a page that leads nowhere."""
    for link in links(page):
        if link.is_address:
            continue
        where = f"{page.relative_to(root)}:{link.line}"
        path, _, anchor = unquote(link.target).partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.is_relative_to(root):
            yield f"{where}: {link.target} leads out of the repository"
        elif not target.exists():
            yield f"{where}: there is no {path}"
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            yield f"{where}: {target.relative_to(root)} has no heading #{anchor}"


@cache
def anchors(page: Path) -> frozenset[str]:
    """Returns the names of a page's headings, as GitHub and MyST make them, and those that are given."""
    text = page.read_text(encoding="utf-8")
    counts: Counter[str] = Counter()
    names = {name for pair in _NAMED.findall(text) for name in pair if name}
    for heading in _HEADING.findall(_FENCED.sub("", text)):
        words = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", words.replace("`", "").lower()).replace(" ", "-")
        names.add(f"{name}-{counts[name]}" if counts[name] else name)
        counts[name] += 1
    return frozenset(names)


def _without_code(text: str) -> str:
    """Blanks code, and keeps the lines."""
    for code in (_FENCED, _CODE):
        text = code.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    return text


if __name__ == "__main__":
    main()
