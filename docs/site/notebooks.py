"""Writes tutorials as notebooks, which hold the same text, code and output."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
from nbformat import v4

__all__ = ["notebook", "write"]

_BLOCK = re.compile(
    r"^```\s*(?:\{\.)?(?P<words>[^\n}]*)\}?\n(?P<source>.*?)^```$\n?", re.MULTILINE | re.DOTALL
)
# Pages that the notebook cannot reach from where a reader keeps it.
_LINK = re.compile(r"\[([^\]]+)\]\((?![a-z]+:)[^)]*\)")


def write(tutorials: Path) -> None:
    """Writes a notebook beside each tutorial of a folder."""
    for page in sorted(tutorials.glob("*.md")):
        nbformat.write(notebook(page.read_text(encoding="utf-8")), page.with_suffix(".ipynb"))


def notebook(page: str) -> nbformat.NotebookNode:
    """Returns the notebook of a page: a block that runs is a cell, with the output that the page shows."""
    cells, end = [], 0
    for block in _BLOCK.finditer(page):
        cells += _text(page[end : block.start()])
        end = block.end()
        language, *options = block["words"].replace(" .", " ").split()
        source = block["source"].rstrip("\n")
        if "output" in options:
            cells[-1].outputs = [v4.new_output("stream", name="stdout", text=block["source"])]
        elif "not-run:" in options or language not in {"python", "bash"}:
            cells += _text(f"```{language}\n{source}\n```")
        else:
            magics = ["%%bash\n"] if language == "bash" else []
            magics += [f"%%writefile {word[5:]}\n" for word in options if word.startswith("file=")]
            cells.append(v4.new_code_cell("".join([*magics, source])))
    cells += _text(page[end:])
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"  # the same in each build
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})


def _text(text: str) -> list[nbformat.NotebookNode]:
    text = _LINK.sub(r"\1", text).strip()
    return [v4.new_markdown_cell(text)] if text else []
