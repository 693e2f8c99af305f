"""What the site makes of the pages' Markdown, and the names of other libraries that it links."""

from __future__ import annotations

import importlib
import json
import pydoc
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

SITE = Path(__file__).parents[1] / "site"
REPLACED = {"np": "numpy", "npt": "numpy.typing", "tf": "tensorflow.compat.v1", "tf2": "tensorflow"}


@pytest.fixture(scope="module")
def conf():
    return runpy.run_path(str(SITE / "conf.py"))


@pytest.fixture
def written(conf, tmp_path):
    """Returns how the site has a page's text."""

    def written(name, text):
        (tmp_path / "quick-start.md").touch()
        source = [text]
        conf["_pages"](SimpleNamespace(srcdir=tmp_path), name, source)
        return source[0]

    return written


@pytest.mark.parametrize(
    "page, link, expected",
    [
        ("the-loop", "[f](../benchmarks/RESULTS.md#lenet)", "[f](figures.md#lenet)"),
        ("decisions/01-x", "[a](../architecture.md)", "[a](../architecture.md)"),
        ("tutorials/01-x", "[f](../../benchmarks/RESULTS.md)", "[f](../figures.md)"),
        ("figures", "[d](../docs/the-loop.md#a)", "[d](the-loop.md#a)"),
        ("wheels/layers", "[d](../../docs/layers.md)", "[d](../layers.md)"),
        ("examples", "[script](gan/dcgan.py)", "script (`examples/gan/dcgan.py`)"),
        ("trainers", "[`examples/x.py`](../examples/x.py)", "`examples/x.py`"),
        ("the-loop", "[a](https://a.org/x) [b](#here)", "[a](https://a.org/x) [b](#here)"),
        ("images", "![two [2]](pictures/a.png)", "![two [2]](pictures/a.png)"),
    ],
)
def test_links_lead_to_where_the_site_has_a_page(written, page, link, expected):
    assert written(page, f"x {link} y") == f"x {expected} y"


def test_a_link_may_begin_in_one_line_and_end_in_the_next(written):
    assert written("figures", "a [b\nc](../docs/rl.md#d) e") == "a [b\nc](rl.md#d) e"


def test_code_is_left_alone_and_loses_what_says_how_it_is_run(written):
    rest = "\n```\n````markdown\n```\n[a](b)\n````\n[a](x.md)"
    text = f"```{{.python continuation}}\nf[0](x)\n```\n```bash not-run: why{rest}"
    assert written("page", text) == f"```python\nf[0](x)\n```\n```bash{rest}"


def test_the_index_has_no_pattern_that_nothing_matches(written):
    assert written("index", "quick-start*\nfaq*\nlayers") == "quick-start*\nlayers"


def test_pages_from_elsewhere_are_there(conf):
    assert all((SITE.parents[1] / path).exists() for path in conf["_ELSEWHERE"])


def test_each_exported_name_has_one_page(conf, tmp_path):
    (tmp_path / "reference").mkdir()
    modules = ["towerpack_callbacks", "towerpack_callbacks.testing", "towerpack_callbacks.checkpoint"]
    listed = "".join(f"   {module}\n" for module in modules)
    (tmp_path / "reference" / "callbacks.md").write_text(
        f"```{{eval-rst}}\n.. autosummary::\n\n{listed}```\n"
    )
    stubs, described = conf["stubs"], conf["_DESCRIBED"]
    stubs.write(tmp_path, described)
    written = {page.stem: page.read_text() for page in (tmp_path / "reference" / "generated").iterdir()}
    assert written.keys() >= set(modules)
    assert "\n.. autoclass:: MaxSaver\n" in written["towerpack_callbacks.MaxSaver"]
    assert "\n.. autoexception:: CheckpointError\n" in written["towerpack_callbacks.CheckpointError"]
    assert "\n.. autofunction:: load_weights\n" in written["towerpack_callbacks.checkpoint.load_weights"]
    assert "\n   load_weights\n" in written["towerpack_callbacks.checkpoint"]
    names = [name.rpartition(".")[2] for name in written.keys() - set(modules)]
    assert len(names) == len(set(names)) > len(described["towerpack_callbacks"]) / 2
    module = "reference/generated/towerpack_callbacks.checkpoint"
    assert stubs.module_of(f"{module}.load_weights") == module


def public_names():
    """Yields the module and the name of each public class and function."""
    for path in (SITE.parents[1] / "api").glob("*.json"):
        entries = json.loads(path.read_text(encoding="utf-8"))
        for full, kind in entries.items():
            module, _, name = full.rpartition(".")
            if kind.startswith(("class", "function")) and module not in entries:
                yield module, name


def test_each_public_class_and_function_has_a_page(conf):
    stubs, described = conf["stubs"], conf["_DESCRIBED"]
    pages = (SITE / "reference").glob("*.md")
    listed = {module for page in pages for module in stubs._LISTED.findall(page.read_text(encoding="utf-8"))}
    absent = {"towerpack_dataflow.interop.torch", "towerpack_dataflow.interop.jax"}  # need other libraries
    shown = {name for module in listed - absent for name, _ in stubs.exported(module, described)}
    assert {"EMA", "LSTM", "cosine", "gradient_penalty"} <= shown
    missing = [
        f"{module}.{name}"
        for module, name in public_names()
        if not (module in listed if module in absent else name in shown)
        and name in importlib.import_module(module).__all__  # else it is a deprecated name
    ]
    assert missing == []


def test_private_bases_are_not_shown(conf):
    class Callback:
        pass

    class _Runner(Callback):
        pass

    class _Alone:
        pass

    shown = [_Runner], [_Alone], [_Runner, Callback, _Alone]
    for bases in shown:
        conf["_bases"](None, "towerpack_callbacks.InferenceRunner", None, None, bases)
    assert shown == ([Callback], [object], [Callback])


def test_sources_link_names_where_they_are_described(conf):
    context = {
        "body": '<a href="../reference/generated/towerpack_x.Saver.html#towerpack_x.files.Saver.save">'
    }
    conf["_links_of_sources"](None, "_modules/towerpack_x", "", context, None)
    assert context["body"].endswith('generated/towerpack_x.Saver.html#towerpack_x.Saver.save">')


def test_an_error_of_several_wheels_is_that_of_its_own(conf, tmp_path):
    lines = ["Reads.", "", "Raises:", "    EmptyFlowError: the flow is empty.", "    OSError: it fails."]
    name = "towerpack_dataflow.interop.arrays.read"
    conf["_docstrings"](SimpleNamespace(srcdir=tmp_path), "function", name, None, None, lines)
    assert lines[3:] == [
        "    ~towerpack_dataflow.EmptyFlowError: the flow is empty.",
        "    OSError: it fails.",
    ]


def test_decisions_are_under_one_entry(written):
    assert written("decisions/README", "x").endswith(":glob:\n\n[0-9]*\n```")


def test_outputs_are_marked(written):
    text = "```text output within=0.05 excerpt\na\n```\n```text output\nb\n```\n```text\nc\n```"
    first = "```{code-block} text\n:class: output excerpt\n\na\n```"
    second = "```{code-block} text\n:class: output\n\nb\n```"
    assert written("page", text) == f"{first}\n{second}\n```text\nc\n```"


def test_drawings_are_in_the_page(written, tmp_path):
    (tmp_path / "tutorials").mkdir()
    (tmp_path / "tutorials" / "a.svg").write_text("<svg/>\n")
    assert written("tutorials/x", "![a](a.svg)") == "```{raw} html\n<svg/>\n```"


def test_charts_have_the_figures_of_the_results():
    charts = runpy.run_path(str(SITE / "charts.py"))
    results = (SITE.parents[1] / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    for name, chart in charts["CHARTS"].items():
        shown = charts["bars"](chart, results)
        assert [bar.label for bar in shown] == list(chart.rows)
        assert all(0 < bar.least <= bar.median <= bar.most for bar in shown)
        drawn = charts["drawn"](name, chart, shown)
        assert all(f"{bar.median:,.0f}</text>" in drawn for bar in shown)
        assert (SITE.parent / "pictures" / f"chart-{name}.svg").read_text(encoding="utf-8") == drawn
    with pytest.raises(ValueError, match="the results have no row 'SimpleTrainer'"):
        charts["bars"](charts["CHARTS"]["training"], results.replace("  SimpleTrainer  ", "  Trainer  "))


def is_there(name):
    """Whether a name can be imported, or is an attribute of what can be."""
    module, _, last = name.rpartition(".")
    try:
        return hasattr(importlib.import_module(module or "builtins"), last)
    except ImportError:
        return pydoc.locate(name) is not None


@pytest.mark.parametrize("path", sorted((SITE / "inventories").glob("*.txt")), ids=lambda path: path.stem)
def test_names_that_the_site_links_exist(conf, path):
    inventory = conf["inventories"].read(path)
    lines = path.read_text(encoding="utf-8").splitlines()[2:]
    assert lines == sorted(lines)
    for name in inventory.names:
        top, _, rest = name.partition(".")
        full = f"{REPLACED.get(top, top)}.{rest}" if rest else name
        assert full == "None" or is_there(full), name
