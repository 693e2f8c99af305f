"""Checks that documentation names files that exist, and that the reading path is as short as it says.

`python checks/pages.py` prints one line for each finding and exits with status 1 if there is one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from source_files import ROOT, WHEELS, report

# `trainers/towers/_tower.py` stands for the file in that wheel's sources.
_IN_A_WHEEL = re.compile(rf"`(({'|'.join(WHEELS)})/[\w/]+\.py)`")
_IN_THE_ROOT = re.compile(
    r"`((?:packages|examples|benchmarks|integration_tests|checks)/[\w./-]+\.(?:py|md))`"
)
_MOST_FILES, _MOST_LINES = 20, 3000
# The column of the site.
_WIDEST_CODE = 88
_CODE = re.compile(r"^```\s*(?:\{\.)?(?:python|bash|yaml|toml)\b[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def main() -> None:
    """Runs all checks."""
    report(chain(_files_that_are_missing(), _reading_path(), _folders(), _wide_code()))


def in_a_wheel(path: str) -> Path:
    """Returns the file that a page calls `<wheel>/<folder>/<file>.py`."""
    wheel, _, rest = path.partition("/")
    return ROOT / "packages" / wheel / "src" / f"towerpack_{wheel}" / rest


def _pages() -> list[Path]:
    top = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    return [*top, *(ROOT / "packages").rglob("src/**/*.md"), *(ROOT / "packages").glob("*/README.md")]


def _files_that_are_missing() -> Iterator[str]:
    for page in _pages():
        text = page.read_text(encoding="utf-8")
        missing = [path for path, _ in _IN_A_WHEEL.findall(text) if not in_a_wheel(path).exists()]
        missing += [path for path in _IN_THE_ROOT.findall(text) if not (ROOT / path).exists()]
        for path in missing:
            yield f"{page.relative_to(ROOT)}: there is no {path}"


def _reading_path() -> Iterator[str]:
    """The section "Where to begin reading" of the architecture."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = text.partition("## Where to begin reading")[2].partition("\n## ")[0]
    paths = list(dict.fromkeys(path for path, _ in _IN_A_WHEEL.findall(section)))
    lines = sum(len(in_a_wheel(path).read_text(encoding="utf-8").splitlines()) for path in paths)
    if len(paths) > _MOST_FILES or lines > _MOST_LINES:
        yield f"the reading path: {len(paths)} files, {lines} lines; at most {_MOST_FILES}, and {_MOST_LINES}"


def _folders() -> Iterator[str]:
    """The table of folders says what each folder says of itself."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    for wheel in WHEELS:
        top = in_a_wheel(f"{wheel}/")
        for face in (face for face in top.rglob("__init__.py") if face.parent != top):
            doc = ast.get_docstring(ast.parse(face.read_text(encoding="utf-8"))) or ""
            row = f"| `{face.parent.relative_to(top)}/` | {' '.join(doc.partition(chr(10) * 2)[0].split())} |"
            if row not in text:
                yield f"docs/architecture.md has no row {row}"


def _wide_code() -> Iterator[str]:
    """Lines of code that are wider than the column of the site."""
    for page in [*_pages(), *(ROOT / "examples").rglob("*.md")]:
        text = page.read_text(encoding="utf-8")
        for block in _CODE.finditer(text):
            first = text.count("\n", 0, block.start(1)) + 1
            for number, line in enumerate(block[1].splitlines(), first):
                if len(line) > _WIDEST_CODE:
                    where = f"{page.relative_to(ROOT)}:{number}"
                    yield f"{where}: {len(line)} characters of code; at most {_WIDEST_CODE}"


if __name__ == "__main__":
    main()
