"""Public names are read from sources, and breaking changes are detected."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from release import api
from release.compatibility import breaking_changes
from release.surface import Surface, read_surfaces
from release.wheels import PUBLIC_MODULES, ROOT, WHEELS, package_of

SOURCE = '''
import attrs
from typing import NamedTuple, final, Protocol

__all__ = ["Base", "Config", "Point", "Grid", "LIMIT", "again", "layer"]

LIMIT = 3


class _Hidden:
    def __init__(self, size, *, seed=None): ...

    def reset(self, hard=False): ...


class Base(_Hidden):
    """Open."""

    @property
    def size(self) -> int: ...

    def _setup_graph(self): ...

    def _inner(self): ...


@final
class Grid(Base, ValueError):
    def draw(self, x, /, y, *rest, colour="red", **kwargs): ...

    def _setup_graph(self): ...

    @staticmethod
    def of(values): ...


@attrs.frozen
class Config:
    rate: float
    steps: int = 3
    _name: str = attrs.field(default="x", kw_only=True)
    _cache: dict = attrs.field(factory=dict, init=False)


class Point(NamedTuple):
    x: float
    y: float = 0.0


def layer(x, units, *, name=None) -> int: ...


again = layer
'''


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A root with one wheel."""
    plant(tmp_path, SOURCE)
    return tmp_path


def plant(root: Path, source: str) -> None:
    package = root / "packages" / "layers" / "src" / "towerpack_layers"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text(source)


def layers(root: Path) -> Surface:
    return read_surfaces(root)["layers"]


def breaks(root: Path, old: str, new: str) -> list[str]:
    before = layers(root)
    assert old in SOURCE
    plant(root, SOURCE.replace(old, new))
    return [str(each).removeprefix("towerpack_layers.") for each in breaking_changes(before, layers(root))]


def test_the_surface_has_kinds_arguments_and_bases(planted: Path) -> None:
    surface = {name.removeprefix("towerpack_layers."): line for name, line in layers(planted).items()}
    assert surface == {
        "Base": "class (size, *, seed=None)",
        "Base._setup_graph": "hook ()",
        "Base.reset": "method (hard=False)",
        "Base.size": "property",
        "Config": "class (rate, steps=3, *, name=...)",
        "Config.rate": "attribute",
        "Config.steps": "attribute",
        "Grid": "class (size, *, seed=None) <- towerpack_layers.Base, ValueError",
        "Grid.draw": "method (x, /, y, *rest, colour='red', **kwargs)",
        "Grid.of": "staticmethod (values)",
        "LIMIT": "attribute",
        "Point": "class (x, y=0.0) <- typing.NamedTuple",
        "Point.x": "attribute",
        "Point.y": "attribute",
        "again": "attribute",
        "layer": "function (x, units, *, name=None)",
    }


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ('"again", "layer"]', '"again"]', ["layer: is gone"]),
        ("def layer(x, units, *", "def layer(x, *", ["layer: its argument `units` is gone"]),
        ("x, units, *", "units, x, *", ["layer: its argument `x` has another place"]),
        (
            "units, *, name=None",
            "units, name=None, *, of",
            ["layer: its argument `of` is new and must be given"],
        ),
        ("*, name=None)", "*, name)", ["layer: its argument `name` must be given now"]),
        ("*, name=None)", "*, name='fc')", ["layer: the default of `name` was None and is 'fc'"]),
        ("layer(x, units,", "layer(x, units, /,", ["layer: its argument `x` has no name in calls any more"]),
        ("*rest, colour", "*, colour", ["Grid.draw: `*rest` is gone"]),
        ("def reset", "def _reset", ["Base.reset: is gone"]),
        ("def _setup_graph(self): ...\n\n    def _inner", "def _inner", ["Base._setup_graph: is gone"]),
        ("(Base, ValueError)", "(Base)", ["Grid: is no ValueError any more"]),
        ("    rate: float\n", "", ["Config: its argument `rate` is gone"]),
        ("layer(x, units", "Layer(x, units", ["layer: was a function and is a attribute"]),
        (
            "class Grid(Base, ValueError):",
            "class _Grid(Base, ValueError):",
            ["Grid: was a class and is a attribute"],
        ),
    ],
)
def test_a_change_that_breaks_is_found(planted: Path, old: str, new: str, found: list[str]) -> None:
    assert breaks(planted, old, new)[: len(found)] == found


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("*, name=None)", "*, name=None, seed=None)"),
        ("units, *, name", "units, bias=True, *, name"),
        ("    def _inner(self): ...", "    def more(self): ..."),
        ("class Base(_Hidden):", "class _Middle(_Hidden): ...\n\n\nclass Base(_Middle):"),
        ("    @property\n    def size(self) -> int: ...", "    size: int = 3"),
        ("def layer(x, units, *, name=None)", "def layer(x, units, *args, name=None, **kwargs)"),
        ("    def reset(self, hard=False): ...", "    def reset(self, hard=False, soft=True): ..."),
    ],
)
def test_an_addition_breaks_nothing(planted: Path, old: str, new: str) -> None:
    assert breaks(planted, old, new) == []


def test_a_method_may_move_to_a_public_base() -> None:
    before = {"towerpack_layers.A": "class ()", "towerpack_layers.A.go": "method ()"}
    now = {
        "towerpack_layers.A": "class () <- towerpack_layers.B",
        "towerpack_layers.B": "class ()",
        "towerpack_layers.B.go": "method ()",
    }
    assert breaking_changes(before, now) == []
    assert [each.name for each in breaking_changes(now, before)] == [
        "towerpack_layers.A",
        "towerpack_layers.B",
    ]


def test_a_name_may_become_another_name_for_the_same() -> None:
    before = {"towerpack_layers.A": "class (x)", "towerpack_layers.A.go": "method ()"}
    now = {
        "towerpack_layers.A": "same as towerpack_layers.B",
        "towerpack_layers.B": "class (x)",
        "towerpack_layers.B.go": "method ()",
    }
    assert breaking_changes(before, now) == []


@pytest.mark.parametrize("kind", ["breaking", "deprecated"])
def test_what_breaks_needs_a_fragment_that_names_it(
    planted: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    assert api.main(["--write"], planted) == 0
    assert api.main([], planted) == 0
    plant(planted, SOURCE.replace("units, *", "size, *"))
    assert api.main([], planted) == 1
    printed = capsys.readouterr()
    assert "BREAKING  towerpack_layers.layer: its argument `units` is gone" in printed.out
    assert "changes/<words>.breaking.md" in printed.err
    fragments = planted / "packages" / "layers" / "changes"
    fragments.mkdir()
    (fragments / "sizes.feature.md").write_text("`layer` takes `size=`.")
    assert api.main([], planted) == 1
    (fragments / f"sizes.{kind}.md").write_text("`layer` takes `size=`, which was `units=`.")
    assert api.main([], planted) == 0
    assert "announced  towerpack_layers.layer" in capsys.readouterr().out


def test_other_arguments_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert api.main(["--wrong"]) == 2
    assert "received ['--wrong']" in capsys.readouterr().err


def test_the_page_names_every_public_module() -> None:
    rows = (ROOT / "docs" / "stability.md").read_text(encoding="utf-8").splitlines()
    for wheel in WHEELS:
        (row,) = (row for row in rows if row.startswith(f"| `{package_of(wheel)}` |"))
        assert re.findall(r"`([\w.]+)`", row)[1:] == list(PUBLIC_MODULES[wheel])


def test_every_public_module_is_there() -> None:
    surfaces = read_surfaces()
    for wheel in WHEELS:
        for module in PUBLIC_MODULES[wheel]:
            assert any(name.startswith(f"{package_of(wheel)}.{module}.") for name in surfaces[wheel]), module
