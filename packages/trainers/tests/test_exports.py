"""The public names are exactly those listed, and each is documented."""

import inspect

import towerpack_trainers


def test_all_is_exactly_the_public_names():
    names = {name: thing for name, thing in vars(towerpack_trainers).items() if not name.startswith("_")}
    # A subpackage that is not listed is there once it has been imported.
    public = {name for name, thing in names.items() if not inspect.ismodule(thing)}
    assert public <= set(towerpack_trainers.__all__) <= set(names)
    names = sorted(towerpack_trainers.__all__, key=lambda name: (not name.isupper(), name))
    assert list(towerpack_trainers.__all__) == names


def test_each_is_documented():
    for name in towerpack_trainers.__all__:
        thing = getattr(towerpack_trainers, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert inspect.getdoc(thing), name
