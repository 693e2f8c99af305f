"""Each public name of Tensorpack 0.11 has an object, or an error that names the page."""

from __future__ import annotations

import ast
import importlib

import pytest

from towerpack_compat import NoCounterpartError
from towerpack_compat.names import call_rules, counterparts, module_names, own_names, star_names

# The names in `__all__` of Tensorpack 0.11, and those outside that programs import.
IN_ALL = 367


def test_the_tables_know_each_public_name() -> None:
    modules = [module for module in module_names() if "." in module or module == "compat"]
    names = {name for module in modules for name in star_names(module)}
    assert len(names) == IN_ALL
    assert names <= {*counterparts(), *own_names()}


def test_own_names_are_those_of_their_modules() -> None:
    by_module: dict[str, set[str]] = {}
    for name, module in own_names().items():
        by_module.setdefault(module, set()).add(name)
    for module, names in by_module.items():
        public = set(importlib.import_module(f"towerpack_compat.{module}").__all__)
        assert names <= public, module


def test_added_arguments_are_values() -> None:
    rules = {name: rule for name, rule in call_rules().items() if name not in own_names()}
    added = [text for rule in rules.values() for text in rule.get("add", {}).values()]
    assert {ast.literal_eval(text) for text in added} == {"fork", "sum"}


@pytest.mark.slow
def test_each_name_is_there(python) -> None:
    code = """
import towerpack_compat
towerpack_compat.install(report=False)
import importlib
from towerpack_compat.names import module_names
for module, names in module_names().items():
    found = importlib.import_module(f"tensorpack.{module}")
    for name in names:
        getattr(found, name)
from tensorpack import *
from tensorpack.tfutils.summary import *
from tensorpack.tfutils import argscope
from tensorpack.libinfo import __version__ as version
assert issubclass(imgaug.Resize, imgaug.transform.TransformAugmentorBase) and version == "0.11"
print(BatchData, Conv2D, launch_train_with_config, logger, dataset, imgaug.Resize, callable(argscope))
"""
    assert python(code=code).rstrip().endswith(" True")


@pytest.mark.slow
def test_a_name_without_counterpart_says_where_to_read(python) -> None:
    code = """
import towerpack_compat
towerpack_compat.install(report=False)
from tensorpack import *
from tensorpack.callbacks import InjectShell
from tensorpack.utils.viz import Canvas
for kind in (InjectShell, Canvas):
    try:
        kind()
    except towerpack_compat.NoCounterpartError as error:
        print(error)
"""
    printed = python(code=code)
    for name in ("InjectShell", "Canvas"):
        assert f"{name} has no counterpart. Read docs/migrating-from-tensorpack.md#names" in printed


def test_the_error_is_a_builtin_one() -> None:
    with pytest.raises(NotImplementedError):
        raise NoCounterpartError
