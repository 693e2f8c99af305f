"""The public names are exactly those listed, and each is documented."""

import ast
import inspect
import subprocess
import sys
import typing
from pathlib import Path

import pytest

import towerpack_callbacks
import towerpack_callbacks.checkpoint
import towerpack_callbacks.hyperparam
import towerpack_callbacks.hyperparam.schedules
import towerpack_callbacks.metrics
import towerpack_callbacks.monitors
import towerpack_callbacks.nonfinite
import towerpack_callbacks.profile
import towerpack_callbacks.testing

MODULES = [
    towerpack_callbacks,
    towerpack_callbacks.checkpoint,
    towerpack_callbacks.hyperparam,
    towerpack_callbacks.hyperparam.schedules,
    towerpack_callbacks.metrics,
    towerpack_callbacks.monitors,
    towerpack_callbacks.nonfinite,
    towerpack_callbacks.profile,
    towerpack_callbacks.testing,
]


def test_all_is_exactly_the_public_names():
    stub = Path(towerpack_callbacks.__file__).with_suffix(".pyi").read_text()
    (listed,) = (node.value for node in ast.parse(stub).body if isinstance(node, ast.Assign))
    assert sorted(towerpack_callbacks.__all__) == sorted(ast.literal_eval(listed))


def test_names_are_imported_when_they_are_used():
    script = "import sys, towerpack_callbacks; print({'numpy', 'tensorflow'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_names_are_listed_once_and_documented(module):
    assert sorted(module.__all__) == sorted(set(module.__all__))
    for name in module.__all__:
        thing = getattr(module, name)
        named_type = typing.get_origin(thing) is not None  # in Python 3.10 such a one is a class, too
        if not named_type and (inspect.isclass(thing) or inspect.isfunction(thing)):
            assert inspect.getdoc(thing), name
