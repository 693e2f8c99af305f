"""How Sphinx makes the site of the pages of docs/ and of the docstrings; `nox -s site` calls it."""

from __future__ import annotations

import importlib
import re
import textwrap
from typing import Any

project = "Towerpack"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
html_theme = "furo"
templates_path = ["_templates"]

# In docstrings a name in backticks is code; it has no role of reStructuredText.
default_role = "code"
napoleon_numpy_docstring = False
napoleon_use_ivar = True
# What a package exports is its reference, wherever it is written.
autosummary_ignore_module_all = False
autosummary_imported_members = True
# A name that a wheel exports at its top is described there alone.
_WHEELS = ("dataflow", "inputsource", "layers", "callbacks", "trainers")
_DESCRIBED = {
    package: frozenset(importlib.import_module(package).__all__)
    for package in (f"towerpack_{wheel}" for wheel in _WHEELS)
}
autosummary_context = {"described": _DESCRIBED}
autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_typehints = "none"
autodoc_preserve_defaults = True
# Large, and needed for their names alone.
autodoc_mock_imports = ["torch", "ray", "mpi4py"]
myst_heading_anchors = 4
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# "```{.python continuation}" goes on from the block before, when the pages' blocks are run.
_CONTINUATION = re.compile(r"```\s*\{\.(\w+)[^}]*\}")
# "`Tower`s": in reStructuredText a name ends at a space.
_NAME = re.compile(r"(`[^`]+`)(\w?)")
# Files beside the pages: sources, examples, figures.
_OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+((?!\w+\.md)[^)#]*|(?:README|CONTRIBUTING)\.md)(?:#[^)]*)?\)")


def _pages(app: Any, name: str, source: list[str]) -> None:
    """Writes the pages' own Markdown as MyST has it."""
    source[0] = _OUTSIDE.sub(_named, _CONTINUATION.sub(r"```\1", source[0]))


def _named(link: re.Match[str]) -> str:
    text, path = link.groups()
    return text if path.removesuffix("/") in text else f"{text} (`{path}`)"


def _docstrings(app: Any, kind: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Writes fenced blocks, and sources of several lines, as reStructuredText has them."""
    written, block, source = [], None, False
    for line in lines:
        source = line.startswith("Source: ") or (source and line.startswith("    "))
        if source and block is None:
            written.append(line.lstrip())
            continue
        if line.lstrip().startswith("```"):
            if block is None:
                block = []
            else:
                indent = line[: len(line) - len(line.lstrip())]
                code = textwrap.indent(textwrap.dedent("\n".join(block)), f"{indent}    ")
                written += ["", f"{indent}.. code-block:: python", "", *code.split("\n"), ""]
                block = None
        else:
            (written if block is None else block).append(line)
    lines[:] = [_NAME.sub(_ended, line) for line in written]


def _ended(name: re.Match[str]) -> str:
    code, letter = name.groups()
    return rf"{code}\ {letter}" if letter else code


def setup(app: Any) -> None:
    """Connects what is above, before napoleon."""
    app.connect("source-read", _pages)
    app.connect("autodoc-process-docstring", _docstrings, priority=400)
