"""Builds the site into dist/site: `python docs/site/build.py FOLDER` collects the pages in that folder."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from importlib.metadata import metadata
from pathlib import Path

import notebooks

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "dist" / "site"
WHEELS = ("dataflow", "inputsource", "layers", "callbacks", "trainers", "compat")


def main() -> int:
    """Collects the pages and calls Sphinx, for which a warning is an error; returns its exit status."""
    pages = Path(sys.argv[1]) / "pages"
    shutil.copytree(ROOT / "docs", pages, ignore=shutil.ignore_patterns("site", "tests"))
    shutil.copytree(ROOT / "docs" / "site", pages, dirs_exist_ok=True)
    for folder in ("wheels", "changelog"):
        (pages / folder).mkdir()
    (pages / "versions.md").write_text(versions(), encoding="utf-8")
    notebooks.write(pages / "tutorials")
    for path, name in json.loads((pages / "elsewhere.json").read_text(encoding="utf-8")).items():
        shutil.copy(ROOT / path, pages / f"{name}.md")
    shutil.rmtree(SITE, ignore_errors=True)  # or pages of names that are gone would stay
    command = ["sphinx-build", "--fail-on-warning", "--keep-going", "--quiet", "--jobs", "2"]
    status = subprocess.run([*command, str(pages), str(SITE)], check=False).returncode
    if status == 0:
        print(f"the site is in {SITE / 'index.html'}")
    return status


def versions() -> str:
    """Returns the page of the versions that this site describes."""
    rows = []
    for wheel in WHEELS:
        described = metadata(f"towerpack-{wheel}")
        changes = f"[changes](changelog/{wheel}.md)"
        rows.append(
            f"| [{described['Name']}](wheels/{wheel}.md) | {described['Version']} "
            f"| {described['Requires-Python']} | {changes} |"
        )
    return "\n".join(
        [
            "# Versions and changelogs",
            "",
            "This site describes the following versions of the wheels. [Stability](stability.md) lists the",
            "supported versions and the rules for changes.",
            "",
            "| Wheel | Version | Python | Changelog |",
            "| --- | --- | --- | --- |",
            *rows,
            "",
            "```{toctree}",
            ":hidden:",
            "",
            *(f"changelog/{wheel}" for wheel in WHEELS),
            "```",
            "",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
