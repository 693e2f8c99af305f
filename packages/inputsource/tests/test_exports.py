import doctest
import importlib
import inspect
import pkgutil

import pytest

import towerpack_inputsource


def test_all_is_the_public_names_sorted():
    public = {
        name
        for name, value in vars(towerpack_inputsource).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert towerpack_inputsource.__all__ == sorted(public)


@pytest.mark.parametrize("name", towerpack_inputsource.__all__)
def test_is_documented(name):
    thing = getattr(towerpack_inputsource, name)
    assert inspect.getdoc(thing)
    for method, function in vars(thing).items():
        if not method.startswith("_") and callable(function):
            assert inspect.getdoc(function), f"{name}.{method}"


MODULES = [module.name for module in pkgutil.iter_modules(towerpack_inputsource.__path__)]


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings(module):
    result = doctest.testmod(importlib.import_module(f"towerpack_inputsource.{module}"))
    assert result.failed == 0
