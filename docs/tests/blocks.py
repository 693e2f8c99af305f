"""Runs the blocks of a page in their order, as a plugin of pytest, and compares what they print.

The blocks of a page, by what stands after their backticks:

- `python`: is run with names of its own; `python continuation` goes on with those of the blocks before it;
- `python file=NAME`: is written to that file, for the blocks that follow;
- `bash`: is run by bash, which stops at the first command that fails; `TOWERPACK` is the repository;
- `python not-run: REASON`, `bash not-run: REASON`: is shown alone;
- `text output`, right after one of these: what it prints, as `printed` compares it; options that follow,
  such as `within=0.05`, allow differences.

`{.python .continuation}` means the same. The blocks of a page run in one folder, which is empty at first.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import pytest
from printed import EXACTLY, Allowed, difference
from sybil import Document, Example, Region, Sybil
from sybil.parsers.markdown.lexers import RawFencedCodeBlockLexer
from sybil.typing import Evaluator

__all__ = ["PAGES", "Block", "folder_of_a_page", "pytest_collect_file"]

ROOT = Path(__file__).resolve().parents[2]
_SECONDS = 100
_FENCES = RawFencedCodeBlockLexer(re.compile(r"(?P<info>[^\n]*)$\n", re.MULTILINE))


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        language: the first word after the backticks.
        options: the other words.
        reason: why the block is not run, after `not-run:`.
        source: its lines.
        output: what the next block says that it prints.
        output_line: the line of the page that the output begins at.
        allowed: how the printed text may differ from it.
    """

    language: str
    options: frozenset[str]
    reason: str | None
    source: str
    output: str | None = None
    output_line: int = 0
    allowed: Allowed = EXACTLY

    @classmethod
    def read(cls, region: Region) -> Block:
        """Reads the words after the backticks."""
        info = region.lexemes["info"].strip()
        if info.startswith("{"):
            info = re.sub(r"(^|\s)\.", r"\1", info.strip("{}"))
        words, not_run, reason = info.partition("not-run")
        language, *options = words.split() or [""]
        why = reason.removeprefix(":").strip() if not_run else None
        return cls(language, frozenset(options), why, region.lexemes["source"])

    @property
    def is_output(self) -> bool:
        """Whether the block says what the one before prints."""
        return self.language == "text" and "output" in self.options

    @property
    def file(self) -> str | None:
        """The file that the block is written to."""
        return next((option.removeprefix("file=") for option in self.options if "file=" in option), None)

    @property
    def mistake(self) -> str | None:
        """What is wrong with the words after the backticks."""
        known = {"continuation"} if self.language == "python" and not self.file else set()
        unknown = {option for option in self.options if not option.startswith("file=")} - known
        if self.is_output:
            return "an output block must be right after the block that prints it"
        if unknown:
            return f"unknown after ```{self.language}: {', '.join(sorted(unknown))}"
        if self.reason == "":
            return "a block that is not run says why: `not-run: REASON`"
        return None


def blocks_of(document: Document) -> Iterator[Region]:
    """Yields the blocks of a page that something is to be done with, each with its output."""
    found = sorted(_FENCES(document), key=lambda region: region.start)
    outer = [
        region for before, region in pairwise([None, *found]) if not before or region.start >= before.end
    ]
    taken = None
    for region, after in zip(outer, [*outer[1:], None]):
        block, end = Block.read(region), region.end
        if region is taken or not (block.language in _RUN or block.is_output):
            continue
        if after and Block.read(after).is_output and not document.text[end : after.start].strip():
            shown, line = Block.read(after), document.text.count("\n", 0, after.start) + 2
            allowed = Allowed.read(shown.options)
            block = replace(block, output=shown.source, output_line=line, allowed=allowed)
            end, taken = after.end, after
        yield Region(region.start, end, block, _evaluator(block))


def _evaluator(block: Block) -> Evaluator:
    if block.mistake:
        return lambda example: block.mistake
    if block.reason:
        return lambda example: None
    return _write if block.file else _RUN[block.language]


def _write(example: Example) -> None:
    """Writes the file that a block shows."""
    path = Path(example.parsed.file)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(example.parsed.source, encoding="utf-8")


def _python(example: Example) -> str | None:
    """Runs Python, with the lines of the page in tracebacks."""
    names, printed = example.namespace, io.StringIO()
    if "continuation" not in example.parsed.options:
        names.clear()
        names["__name__"] = "page"  # no module, so workers get what the page defines by value
    code = compile("\n" * example.line + example.parsed.source, example.path, "exec", dont_inherit=True)
    try:
        with redirect_stdout(printed), redirect_stderr(printed):
            exec(code, names)
    finally:
        sys.stdout.write(printed.getvalue())
    return _compared(example, printed.getvalue())


def _bash(example: Example) -> str | None:
    """Runs bash, where `python` is the one that runs this."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    command = ["bash", "-euo", "pipefail", "-c", example.parsed.source]
    env = {"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ, "PATH": path, "TOWERPACK": str(ROOT)}
    done = subprocess.run(
        command, env=env, timeout=_SECONDS, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    sys.stdout.write(done.stdout)
    if done.returncode:
        return f"bash ended with status {done.returncode}:\n{done.stdout}"
    return _compared(example, done.stdout)


def _compared(example: Example, printed: str) -> str | None:
    if example.parsed.output is None:
        return None
    page = os.path.relpath(example.path, ROOT)
    block = example.parsed
    return difference(block.output, printed, page, block.output_line, block.allowed)


_RUN = {"python": _python, "bash": _bash}


@pytest.fixture(scope="module")
def folder_of_a_page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A folder in which the blocks of a page run, and which they can import from."""
    folder = tmp_path_factory.mktemp("page")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(folder)
        yield
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(f"{folder}{os.sep}"):
            del sys.modules[name]


PAGES = Sybil([blocks_of], pattern="*.md", path=str(ROOT), fixtures=["folder_of_a_page"])
pytest_collect_file = PAGES.pytest()
