"""Runs Tensorpack's own unit tests as they are, by towerpack-compat: `python unit_tests.py CHECKOUT`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
import unittest
from pathlib import Path

import towerpack_compat

TESTS = (
    "callbacks.param_test",
    "dataflow.imgaug.imgaug_test",
    "dataflow.serialize_test",
    "models.models_test",
    "tfutils.unit_tests",
)


def main(checkout: Path) -> int:
    """Runs all tests, and returns the exit status."""
    towerpack_compat.install()
    suite = unittest.TestSuite()
    for name in TESTS:
        module = _load(f"tensorpack.{name}", checkout)
        suite.addTests(unittest.defaultTestLoader.loadTestsFromModule(module))
    return 0 if unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful() else 1


def _load(name: str, checkout: Path) -> types.ModuleType:
    """Imports a file of the checkout as a module of `tensorpack`, so that its relative imports are found."""
    importlib.import_module(name.rpartition(".")[0])
    path = checkout.joinpath(*name.split(".")).with_suffix(".py")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
