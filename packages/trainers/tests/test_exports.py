"""The public names are exactly those listed; each is documented and can be inspected."""

import inspect
import typing

import attrs
import pytest

import towerpack_trainers
from towerpack_trainers import distributed, optimize, predict, replicate, testing

PUBLIC = [towerpack_trainers, distributed, optimize, predict, replicate, testing]
CLASSES = {
    thing for module in PUBLIC for name in module.__all__ if inspect.isclass(thing := getattr(module, name))
}


def test_all_is_exactly_the_public_names():
    public = {name for name in vars(towerpack_trainers) if not name.startswith("_")}
    folders = {name for name in public if inspect.ismodule(getattr(towerpack_trainers, name))}
    listed = {"distributed", "optimize", "predict", "replicate"}
    assert listed <= folders  # without being imported by name
    assert set(towerpack_trainers.__all__) == public - folders
    names = sorted(towerpack_trainers.__all__, key=lambda name: (not name.isupper(), name))
    assert list(towerpack_trainers.__all__) == names


@pytest.mark.parametrize("module", PUBLIC, ids=lambda module: module.__name__)
def test_names_are_sorted_and_documented(module):
    assert list(module.__all__) == sorted(module.__all__, key=lambda name: (not name.isupper(), name))
    for name in module.__all__:
        thing = getattr(module, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert inspect.getdoc(thing), name


@pytest.mark.parametrize(
    "exported", sorted(CLASSES, key=lambda kind: kind.__name__), ids=lambda kind: kind.__name__
)
def test_hints_and_source_of_each_class_are_available(exported):
    assert f"class {exported.__name__}" in inspect.getsource(exported)
    typing.get_type_hints(exported)
    for name, member in vars(exported).items():
        function = member.fget if isinstance(member, property) else member
        # The __init__ that attrs writes has the hints of its converters, whose names are of other modules.
        if inspect.isfunction(function) and not (attrs.has(exported) and name == "__init__"):
            typing.get_type_hints(function)
