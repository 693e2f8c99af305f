"""The files outside the wheels import modules and names that exist; benchmarks import private ones, too."""

import ast
import functools
from itertools import chain

import pytest
from source_files import ROOT

SOURCES = {path.name: path for path in ROOT.glob("packages/*/src/towerpack_*")}
# Type checkers read those of examples (editors.py).
FOLDERS = ["benchmarks", "integration_tests", "mutants", "oracles"]


def source_of(module):
    """Returns the file of a module of the wheels, or `None`."""
    wheel, *rest = module.split(".")
    path = SOURCES[wheel].joinpath(*rest)
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


@functools.cache
def names_of(file):
    """Returns the names that a module binds, or its stub for those that are imported on use."""
    bound = set()
    files = [path for path in (file, file.with_suffix(".pyi")) if path.is_file()]
    for node in chain.from_iterable(ast.walk(ast.parse(path.read_text(encoding="utf-8"))) for path in files):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            bound.update(alias.asname or alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            bound.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            bound.add(node.value)  # a name in `__all__` that `__getattr__` answers, such as a deprecated one
    return bound


def missing(text):
    """Yields the imports from the wheels in Python source whose module or name does not exist."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            imports = [(alias.name, ()) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            imports = [(node.module, [alias.name for alias in node.names])]
        else:
            continue
        for module, names in imports:
            if module.partition(".")[0] not in SOURCES:
                continue
            file = source_of(module)
            if file is None:
                yield module
                continue
            bound = names_of(file) if names else ()
            yield from (
                f"{module}.{name}"
                for name in names
                if name not in bound and not source_of(f"{module}.{name}")
            )


@pytest.mark.parametrize("folder", FOLDERS)
def test_imports_exist(folder):
    # Programs for the migration are written for another library.
    files = [path for path in ROOT.glob(f"{folder}/**/*.py") if "migration" not in path.parts]
    found = [f"{path.relative_to(ROOT)}: {name}" for path in files for name in missing(path.read_text())]
    assert files and not found, "\n".join(found)


def test_missing_modules_and_names_are_found():
    text = (
        "import towerpack_dataflow.nowhere, numpy\n"
        "from towerpack_dataflow import DataFromList, NoSuchFlow\n"
        "from towerpack_layers.nowhere import Anything\n"
        "from towerpack_callbacks import checkpoint\n"
    )
    expected = ["towerpack_dataflow.nowhere", "towerpack_dataflow.NoSuchFlow", "towerpack_layers.nowhere"]
    assert list(missing(text)) == expected
