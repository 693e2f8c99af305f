"""How Sphinx makes the site of the pages of docs/ and of the docstrings; `nox -s site` calls it."""

from __future__ import annotations

import importlib
import json
import posixpath
import re
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import inventories

project = "Towerpack"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
html_theme = "furo"
html_title = "Towerpack"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_copyright = False
html_copy_source = False
templates_path = ["_templates"]

# In docstrings a name in backticks is code; it has no role of reStructuredText.
default_role = "code"
napoleon_numpy_docstring = False
napoleon_use_ivar = True
# What a package exports is its reference, wherever it is written.
autosummary_ignore_module_all = False
autosummary_imported_members = True
# A name that a wheel exports at its top is described there alone.
_WHEELS = ("dataflow", "inputsource", "layers", "callbacks", "trainers", "compat")
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
intersphinx_mapping = inventories.packed(Path(tempfile.mkdtemp()))
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# What else stands after the backticks says how a block is run.
_OPTIONS = re.compile(r"(`{3,})\s*(?:\{\.)?(\w+).*")
# "`Tower`s": in reStructuredText a name ends at a space.
_NAME = re.compile(r"(`[^`]+`)(\w?)")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])+)\]\((?!#)(?![a-z]+:)([^)#\s]*)(#[^)\s]*)?\)")
# What the site has from elsewhere in the repository, by the names of `noxfile.py`.
_ELSEWHERE = json.loads((Path(__file__).parent / "elsewhere.json").read_text(encoding="utf-8"))


def _pages(app: Any, name: str, source: list[str]) -> None:
    """Writes the pages' own Markdown as MyST has it, with links to where the site has their targets."""
    lines, fence = [], ""
    for line in source[0].split("\n"):
        if name == "index" and "*" in line and not any(Path(app.srcdir).glob(f"{line}.md")):
            continue  # Sphinx warns of patterns that nothing matches
        mark = _FENCE.match(line)
        if mark and not fence:
            fence, line = mark[1], _OPTIONS.sub(r"\1\2", line)
        elif mark and mark[1].startswith(fence) and not line.strip(" `~"):
            fence = ""
        elif not fence:
            line = _LINK.sub(lambda link: _linked(link, name), line)
        lines.append(line)
    source[0] = "\n".join(lines)


def _linked(link: re.Match[str], page: str) -> str:
    picture, text, path, anchor = link.groups()
    place = {name: file for file, name in _ELSEWHERE.items()}.get(page, f"docs/{page}.md")
    target = posixpath.normpath(posixpath.join(posixpath.dirname(place), path))
    known = _ELSEWHERE.get(target, target.removeprefix("docs/").removesuffix(".md"))
    if picture or not (target in _ELSEWHERE or (target.startswith("docs/") and target.endswith(".md"))):
        return link[0] if picture else _named(text, target)
    return f"[{text}]({posixpath.relpath(known, posixpath.dirname(page) or '.')}.md{anchor or ''})"


def _named(text: str, path: str) -> str:
    return text if path in text else f"{text} (`{path}`)"


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
    """Connects what is above, before napoleon, and what looks for names of other libraries."""
    app.connect("source-read", _pages)
    app.connect("autodoc-process-docstring", _docstrings, priority=400)
    app.connect("missing-reference", inventories.missing, priority=900)  # after intersphinx
