"""Writes a page for each module of the API reference and for each name that it exports.

Sphinx's own generator makes an environment for each member of each class, which takes minutes.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

__all__ = ["exported", "module_of", "write"]

_LISTED = re.compile(r"^   (towerpack_[\w.]+)$", re.MULTILINE)
_FOLDER = "reference/generated/"


def write(pages: Path, described: Mapping[str, Collection[str]]) -> None:
    """Writes the pages of the modules that the pages of `reference/` list.

    Args:
        pages: the folder of the site's pages.
        described: the names that each wheel exports at its top, which are described there alone.
    """
    folder = pages / _FOLDER
    folder.mkdir()
    for page in sorted((pages / "reference").glob("*.md")):
        for module in _LISTED.findall(page.read_text(encoding="utf-8")):
            names = dict(exported(module, described))
            listed = "".join(f"   {name}\n" for name in names)
            text = (
                f"{_title(module)}.. automodule:: {module}\n   :no-members:\n\n"
                f".. currentmodule:: {module}\n\n.. autosummary::\n   :nosignatures:\n\n{listed}"
            )
            (folder / f"{module}.rst").write_text(text, encoding="utf-8")
            for name, kind in names.items():
                # In no table of contents: each page of the site would list more than a thousand names.
                text = f":orphan:\n\n{_title(name)}.. currentmodule:: {module}\n\n.. auto{kind}:: {name}\n"
                (folder / f"{module}.{name}.rst").write_text(text, encoding="utf-8")


def exported(module: str, described: Mapping[str, Collection[str]]) -> Iterator[tuple[str, str]]:
    """Yields the names that a module describes, with the kinds that Sphinx has for them."""
    top = module.partition(".")[0]
    loaded = importlib.import_module(module)
    for name in loaded.__all__:
        kind = _kind(getattr(loaded, name))
        is_constant = kind == "data" and name == name.upper()
        if not is_constant and (module == top or name not in described[top]):
            yield name, kind


def module_of(page: str) -> str:
    """Returns the page of the module that exports the name of a page."""
    return page.rpartition(".")[0]


def _kind(thing: object) -> str:
    if inspect.isclass(thing):
        return "exception" if issubclass(thing, BaseException) else "class"
    return "function" if inspect.isroutine(thing) else "data"


def _title(name: str) -> str:
    return f"{name}\n{'=' * len(name)}\n\n"
