"""Builds the site into dist/site: `python docs/site/build.py FOLDER` collects the pages in that folder."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "dist" / "site"


def main() -> int:
    """Collects the pages and calls Sphinx, for which a warning is an error; returns its exit status."""
    pages = Path(sys.argv[1]) / "pages"
    shutil.copytree(ROOT / "docs", pages, ignore=shutil.ignore_patterns("site", "tests"))
    shutil.copytree(ROOT / "docs" / "site", pages, dirs_exist_ok=True)
    (pages / "wheels").mkdir()
    for path, name in json.loads((pages / "elsewhere.json").read_text(encoding="utf-8")).items():
        shutil.copy(ROOT / path, pages / f"{name}.md")
    command = ["sphinx-build", "--fail-on-warning", "--keep-going", "--quiet", "--jobs", "2"]
    status = subprocess.run([*command, str(pages), str(SITE)], check=False).returncode
    if status == 0:
        print(f"the site is in {SITE / 'index.html'}")
    return status


if __name__ == "__main__":
    sys.exit(main())
