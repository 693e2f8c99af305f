"""The public names are exactly those listed, and each is documented."""

import inspect
import typing

import pytest

import towerpack_callbacks
import towerpack_callbacks.checkpoint
import towerpack_callbacks.hyperparam
import towerpack_callbacks.hyperparam.schedules
import towerpack_callbacks.monitors
import towerpack_callbacks.nonfinite
import towerpack_callbacks.profile
import towerpack_callbacks.testing

MODULES = [
    towerpack_callbacks,
    towerpack_callbacks.checkpoint,
    towerpack_callbacks.hyperparam,
    towerpack_callbacks.hyperparam.schedules,
    towerpack_callbacks.monitors,
    towerpack_callbacks.nonfinite,
    towerpack_callbacks.profile,
    towerpack_callbacks.testing,
]


def test_all_is_exactly_the_public_names():
    names = {name: thing for name, thing in vars(towerpack_callbacks).items() if not name.startswith("_")}
    folders = {name for name, thing in names.items() if inspect.ismodule(thing)}
    assert {"checkpoint", "hyperparam", "monitors", "nonfinite", "profile", "testing"} <= folders
    assert set(towerpack_callbacks.__all__) == set(names) - folders


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_names_are_sorted_and_documented(module):
    assert list(module.__all__) == sorted(module.__all__, key=lambda name: (not name.isupper(), name))
    for name in module.__all__:
        thing = getattr(module, name)
        named_type = typing.get_origin(thing) is not None  # in Python 3.10 such a one is a class, too
        if not named_type and (inspect.isclass(thing) or inspect.isfunction(thing)):
            assert inspect.getdoc(thing), name
