"""Writes the address of the repository into all files that name it.

python -m release.repository https://github.com/someone/towerpack

These are the `[project.urls]` of the wheels, which a release needs, `CITATION.cff` and the links of the page
for new issues. A second address replaces the first one.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from .wheels import ROOT, WHEELS

__all__ = ["main", "write_address"]

_ADDRESS = re.compile(r"https://[\w.-]+/[\w.-]+/[\w.-]+")
_URLS = re.compile(r"\[project\.urls\]\n(?:[^\[\n][^\n]*\n)*\n?")
_CITED = re.compile(r"repository-code: [^\n]*\n")
_LINKS = re.compile(r"contact_links:\n(?:[ -][^\n]*\n)*")


def write_address(address: str, root: Path = ROOT) -> None:
    """Writes an address, such as `https://github.com/someone/towerpack`, into the files of a working tree.

    Raises:
        ValueError: it is not the address of a repository.
    """
    address = address.removesuffix("/").removesuffix(".git")
    if _ADDRESS.fullmatch(address) is None:
        raise ValueError(
            f"received {address!r}; expected an address such as https://github.com/someone/towerpack"
        )
    for wheel in WHEELS:
        file = root / "packages" / wheel / "pyproject.toml"
        urls = (
            f'[project.urls]\nSource = "{address}"\nIssues = "{address}/issues"\n'
            f'Changelog = "{address}/blob/main/packages/{wheel}/CHANGELOG.md"\n\n'
        )
        text = _URLS.sub("", file.read_text(encoding="utf-8"))
        begin = text.index("[project]\n")
        place = text.find("\n[", begin) + 1 or len(text)
        file.write_text(f"{text[:place]}{urls}{text[place:]}".rstrip("\n") + "\n", encoding="utf-8")
    _append(root / "CITATION.cff", _CITED, f"repository-code: {address}\n")
    links = (
        "contact_links:\n  - name: Report a vulnerability\n"
        f"    url: {address}/security/advisories/new\n    about: Report it privately.\n"
    )
    _append(root / ".github" / "ISSUE_TEMPLATE" / "config.yml", _LINKS, links)


def _append(file: Path, earlier: re.Pattern[str], text: str) -> None:
    file.write_text(earlier.sub("", file.read_text(encoding="utf-8")) + text, encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Writes the address that the command line names; returns the exit status."""
    try:
        (address,) = arguments
        write_address(address)
    except ValueError as error:
        print(f"error: expected one address: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
