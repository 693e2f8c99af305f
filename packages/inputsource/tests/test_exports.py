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


MODULES = [
    module.name
    for module in pkgutil.walk_packages(towerpack_inputsource.__path__, "towerpack_inputsource.")
    if not module.ispkg
]


def test_the_examples_are_looked_for_in_every_folder():
    assert {name.split(".")[1] for name in MODULES} >= {
        "specs",
        "prefetch",
        "_feed_input",
        "in_graph",
        "queued",
        "_staging_input",
    }


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings(module):
    result = doctest.testmod(importlib.import_module(module))
    assert result.failed == 0


def test_every_public_source_has_an_example_that_runs():
    for name in towerpack_inputsource.__all__:
        thing = getattr(towerpack_inputsource, name)
        if inspect.isclass(thing) and issubclass(thing, towerpack_inputsource.InputSource):
            examples = doctest.DocTestFinder(recurse=False).find(thing)
            assert thing is towerpack_inputsource.InputSource or examples[0].examples, name
