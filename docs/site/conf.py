"""How Sphinx makes the site of the pages of docs/ and of the docstrings; `nox -s site` calls it."""

from __future__ import annotations

import importlib
import json
import posixpath
import re
import sys
import tempfile
import textwrap
from collections import Counter
from collections.abc import Collection, Iterator
from functools import cache
from importlib.metadata import metadata
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import inventories
import signatures
import stubs

project = "Towerpack"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]
html_theme = "furo"
html_title = f"Towerpack {metadata('towerpack-trainers')['Version']}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_copyright = False
html_copy_source = False

# In docstrings a name in backticks is code; it has no role of reStructuredText.
default_role = "code"
napoleon_numpy_docstring = False
napoleon_use_ivar = True
autosummary_generate = False  # stubs.py writes the pages
# A name that a wheel exports at its top is described there alone.
_WHEELS = ("dataflow", "inputsource", "layers", "callbacks", "trainers", "compat")
_DESCRIBED = {
    package: frozenset(importlib.import_module(package).__all__)
    for package in (f"towerpack_{wheel}" for wheel in _WHEELS)
}
# Names that several wheels have, such as `EmptyFlowError`.
_SHARED = {name for name, many in Counter(chain(*_DESCRIBED.values())).items() if many > 1}
autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 88
# Large, and needed for their names alone.
autodoc_mock_imports = ["jax", "torch", "ray", "mpi4py"]
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
intersphinx_mapping = inventories.packed(Path(tempfile.mkdtemp()))
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_selector = "div:not(.output) > div.highlight > pre"

# Sidebars that pages share.
_SIDEBARS: dict[str, str] = {}

# The words after the language select how a block is run and compared.
_OPTIONS = re.compile(r"( *)(`{3,})\s*(?:\{\.)?(\w+)(.*)")
_PATTERN = re.compile(r"[\w/-]*\*")
_SVG = re.compile(r"!\[[^\]]*\]\((\S+\.svg)\)")
# "`Tower`s": in reStructuredText a name ends at a space.
_NAME = re.compile(r"(`[^`]+`)(\w?)")
_CODE = re.compile(r"(?ms)^```\s*(?:\{\.)?python[^\n]*\n(.*?)^```")
_BACKLINK = re.compile(r'(generated/)([\w.]+)\.(\w+)\.html#[\w.]*?\.\3([".])')
_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])+)\]\((?!#)(?![a-z]+:)([^)#\s]*)(#[^)\s]*)?\)")
# What the site has from elsewhere in the repository, by the names of `noxfile.py`.
_ELSEWHERE = json.loads((Path(__file__).parent / "elsewhere.json").read_text(encoding="utf-8"))


def _pages(app: Any, name: str, source: list[str]) -> None:
    """Writes the pages' own Markdown as MyST has it, with links to where the site has their targets."""
    # Lines with whether they are prose: a link may begin in one line and end in the next.
    kinds, fence = [], ""
    for line in source[0].split("\n"):
        if name == "index" and _PATTERN.fullmatch(line) and not any(Path(app.srcdir).glob(f"{line}.md")):
            continue  # Sphinx warns of patterns that nothing matches
        mark, prose = _FENCE.match(line), False
        if mark and not fence:
            fence, line = mark[1], _OPTIONS.sub(_opened, line)
        elif mark and mark[1].startswith(fence) and not line.strip(" `~"):
            fence = ""
        elif not fence and (drawing := _SVG.fullmatch(line)):
            # In the page itself, where its colours follow the theme.
            line = (Path(app.srcdir, name).parent / drawing[1]).read_text(encoding="utf-8")
            line = f"```{{raw}} html\n{line}```"
        else:
            prose = not fence
        kinds.append((prose, line))
    lines = []
    for prose, group in groupby(kinds, key=itemgetter(0)):
        text = "\n".join(line for _, line in group)
        lines += (_LINK.sub(lambda link: _linked(link, name), text) if prose else text).split("\n")
    if name == "decisions/README":
        lines += ["", "```{toctree}", ":hidden:", ":glob:", "", "[0-9]*", "```"]
    if (Path(app.srcdir) / f"{name}.ipynb").exists():
        lines[1:1] = ["", f"{{download}}`Open as a notebook <{posixpath.basename(name)}.ipynb>`"]
    source[0] = "\n".join(lines)


def _opened(fence: re.Match[str]) -> str:
    """Returns the first line of a block; one of output has a class for each kind."""
    indent, ticks, language, options = fence.groups()
    kinds = [kind for kind in ("output", "excerpt") if kind in options.split()]
    if language != "text" or not kinds:
        return f"{indent}{ticks}{language}"
    return f"{indent}{ticks}{{code-block}} text\n{indent}:class: {' '.join(kinds)}\n"


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
    package = name.partition(".")[0]
    named = _SHARED & _DESCRIBED.get(package, frozenset())
    lines[:] = [_NAME.sub(_ended, _with_package(line, package, named)) for line in written]
    used = _used(Path(app.srcdir)).get(name.rpartition(".")[2], ())
    if (
        kind in {"class", "function"}
        and used
        and not any(mark in line for line in lines for mark in (">>>", "code-block"))
    ):
        lines += ["", "Examples: " + ", ".join(f":doc:`/{page}`" for page in used), ""]


@cache
def _used(pages: Path) -> dict[str, list[str]]:
    """Returns up to three pages with code that uses a name, those that use it most first."""
    counts: dict[str, Counter[str]] = {}
    for page in sorted(pages.rglob("*.md")):
        place = page.relative_to(pages).with_suffix("").as_posix()
        for code in _CODE.findall(page.read_text(encoding="utf-8")):
            for name in set(re.findall(r"\w+", code)):
                counts.setdefault(name, Counter())[place] += 1
    return {name: [page for page, _ in found.most_common(3)] for name, found in counts.items()}


def _with_package(line: str, package: str, named: Collection[str]) -> str:
    """Adds the package to the name that a line of `Raises:` describes, if other packages have such a name."""
    error = line.strip().partition(":")[0]
    return line.replace(error, f"~{package}.{error}", 1) if error in named else line


def _ended(name: re.Match[str]) -> str:
    code, letter = name.groups()
    return rf"{code}\ {letter}" if letter else code


def _stubs(app: Any) -> None:
    from sphinx.ext.autodoc.mock import mock  # tests run without Sphinx

    with mock(autodoc_mock_imports):
        stubs.write(Path(app.srcdir), _DESCRIBED)


def _bases(app: Any, name: str, described: type, options: object, bases: list[Any]) -> None:
    """Replaces private base classes by the public ones above them."""
    found = dict.fromkeys(public for base in bases for public in _public(base))
    bases[:] = [base for base in found if base is not object] or [object]


def _public(base: Any) -> Iterator[Any]:
    if not getattr(base, "__name__", "").startswith("_"):
        yield base
    else:
        for above in base.__bases__:
            yield from _public(above)


def _links_of_sources(app: Any, name: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Corrects links from sources to names: viewcode has one module for all names of a file."""
    if name.startswith("_modules/"):
        context["body"] = _BACKLINK.sub(r"\1\2.\3.html#\2.\3\4", context["body"])


def _sidebar(app: Any, name: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Gives equal sidebars, which Sphinx makes for each page, to the names of a module and to sources.

    The page of a name has the sidebar of its module, in which the module is marked.
    """
    from sphinx.environment.adapters.toctree import global_toctree_for_doc  # tests run without Sphinx

    if "orphan" in app.env.metadata[name]:
        key = place = stubs.module_of(name)
    elif name.startswith("_modules/"):
        key, place = f"sources {name.count('/')}", name
    else:
        return
    if key not in _SIDEBARS:
        options = {"collapse": False, "titles_only": True, "includehidden": True, "maxdepth": -1}
        tree = global_toctree_for_doc(app.env, place, app.builder, **options)
        address = app.builder.get_relative_uri(name, place)
        _SIDEBARS[key] = app.builder.render_partial(tree)["fragment"].replace('href="#"', f'href="{address}"')
    context["toctree"] = lambda **options: _SIDEBARS[key]


def setup(app: Any) -> None:
    """Connects what is above, before napoleon, and what looks for names of other libraries."""
    app.connect("builder-inited", _stubs)
    app.connect("html-page-context", _sidebar, priority=100)  # before the theme
    app.connect("html-page-context", _links_of_sources)
    signatures.show_defaults_of_attrs(_DESCRIBED)
    app.connect("source-read", _pages)
    app.connect("autodoc-process-docstring", _docstrings, priority=400)
    app.connect("autodoc-process-signature", signatures.as_written)
    app.connect("autodoc-process-bases", _bases)
    app.connect("missing-reference", signatures.full_name(_DESCRIBED), priority=100)  # before intersphinx
    app.connect("missing-reference", inventories.missing, priority=900)  # after it
