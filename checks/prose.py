"""Shares of docstrings, messages and paragraphs whose English needs a second reading, for `dialect.py`.

A pattern is a place to look: a question has a "what" rightly, so a small share of each kind is allowed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from source_files import ROOT, Module

__all__ = ["docstrings", "excessive", "foreign", "messages", "paragraphs"]

# Per cent of the texts of a kind that may have a pattern.
_MOST = {"docstrings": 3.0, "messages": 2.0, "paragraphs": 5.0}

_PATTERNS = re.compile(
    r"\b(?:what|whatever|whoever|whose) [a-z]+"  # free relative clauses
    r"|\bof (?:one's|your|its|their) own\b"
    r"|\b(?:go|goes|going|went) on\b|\b(?:anew|beside|lest)\b"
    r"|\b(?:is|are) none\b"
    r"|\b(?:is told|to be told|learns|knows nothing|says of itself|wishes|tells of)\b"  # personified programs
    r"|\b(?:shall|as is allowed|so as to|therewith|thereof|of which no)\b",
    re.IGNORECASE,
)
_LOGS = {"debug", "info", "warning", "error"}
_BLOCK = re.compile(r"```.*?```", re.DOTALL)
_FEWEST_WORDS = 5


def excessive(kind: str, texts: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yields the places of foreign texts of a kind, if their share is above the bound.

    Args:
        kind: docstrings, messages or paragraphs.
        texts: the place and the words of each text.
    """
    count, found = 0, []
    for place, text in texts:
        count += 1
        if (pattern := foreign(text)) is not None:
            found.append(f"{place}: {pattern!r} in a text for readers")
    share = 100 * len(found) / max(count, 1)
    if share > _MOST[kind]:
        yield from found
        yield f"{share:.1f} % of {count} {kind} have such words, where {_MOST[kind]} % are allowed"


def foreign(text: str) -> str | None:
    """Returns the first words that match a pattern, or None."""
    found = _PATTERNS.search(text)
    return found and found[0]


def docstrings(module: Module) -> Iterator[tuple[str, str]]:
    """Yields the docstrings of a module."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(module.tree):
        if isinstance(node, documented) and (text := ast.get_docstring(node)):
            yield module.at(node), text


def messages(module: Module) -> Iterator[tuple[str, str]]:
    """Yields the texts of raised errors and of log lines."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Raise) or _is_log(node):
            parts = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
            text = " ".join(part for part in parts if isinstance(part, str))
            if " " in text:
                yield module.at(node), text


def _is_log(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _LOGS


def paragraphs(page: Path) -> Iterator[tuple[str, str]]:
    """Yields the paragraphs of a page, without its blocks of code."""
    text = _BLOCK.sub("", page.read_text(encoding="utf-8"))
    for paragraph in re.split(r"\n\s*\n", text):
        if len(paragraph.split()) >= _FEWEST_WORDS:
            yield str(page.relative_to(ROOT)), paragraph
