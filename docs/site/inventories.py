"""Lets the site link names of other libraries without a network, by small inventories that are kept here.

A file `inventories/NAME.txt` has the address of the library's documentation, the top-level packages that it
describes, and a line for each name: the name, its role, and its page, in which `$` stands for the name.
A name of these packages that the documentation links and that is in no file is a warning of the build.
"""

from __future__ import annotations

import builtins
import zlib
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["FOLDER", "Inventory", "missing", "packed", "read"]

FOLDER = Path(__file__).parent / "inventories"


class Inventory(NamedTuple):
    """The names of one library.

    Attributes:
        address: where its documentation is.
        packages: the top-level packages that it describes.
        names: for each name, its role and its page.
    """

    address: str
    packages: frozenset[str]
    names: dict[str, tuple[str, str]]


def read(path: Path) -> Inventory:
    """Reads one file."""
    address, packages, *lines = path.read_text(encoding="utf-8").splitlines()
    rows = (line.split() for line in lines)
    names = {name: (role, page.replace("$", name)) for name, role, page in rows}
    return Inventory(address, frozenset(packages.split()), names)


@cache
def _all() -> dict[Path, Inventory]:
    """Reads all files; Sphinx asks for thousands of names."""
    return {path: read(path) for path in sorted(FOLDER.glob("*.txt"))}


def packed(folder: Path) -> dict[str, tuple[str, str]]:
    """Writes the inventories as Sphinx has them, and returns `intersphinx_mapping`."""
    mapping = {}
    for path, inventory in _all().items():
        head = f"# Sphinx inventory version 2\n# Project: {path.stem}\n# Version: \n"
        head += "# The remainder of this file is compressed using zlib.\n"
        rows = "".join(f"{name} py:{role} 1 {page} -\n" for name, (role, page) in inventory.names.items())
        (folder / f"{path.stem}.inv").write_bytes(head.encode() + zlib.compress(rows.encode()))
        mapping[path.stem] = (inventory.address, str(folder / f"{path.stem}.inv"))
    return mapping


def missing(app: Any, env: Any, node: Any, content: Any) -> None:
    """Warns of a name that one of the libraries should have."""
    name = node.get("reftarget", "")
    package = name.partition(".")[0]
    if node.get("refdomain") != "py" or not name:
        return
    from sphinx.util import logging  # tests read the files where there is no Sphinx

    for path, inventory in _all().items():
        is_builtin = "builtins" in inventory.packages and hasattr(builtins, name)
        # Sphinx asks for names that intersphinx has found, too.
        if name not in inventory.names and (package in inventory.packages or is_builtin):
            logging.getLogger(__name__).warning(
                "%s is not in docs/site/inventories/%s", name, path.name, location=node
            )
