from __future__ import annotations

import inspect
import subprocess
import sys
import types

import pytest

import towerpack_layers


def test_all_is_exactly_the_public_names() -> None:
    public = {
        name
        for name, member in vars(towerpack_layers).items()
        if not name.startswith("_") and not isinstance(member, types.ModuleType)
    }
    assert set(towerpack_layers.__all__) == public


def test_all_is_sorted() -> None:
    # As ruff does: names in capitals, such as LSTM, come first.
    assert towerpack_layers.__all__ == sorted(
        towerpack_layers.__all__, key=lambda name: (not name.isupper(), name)
    )


def test_every_public_name_is_documented() -> None:
    for name in towerpack_layers.__all__:
        member = getattr(towerpack_layers, name)
        assert inspect.getdoc(member), f"{name} has no docstring"
        if not inspect.isclass(member):
            assert "Example:" in (inspect.getdoc(member) or ""), f"{name} shows no example"


def test_every_error_is_a_builtin_error_too() -> None:
    for name in towerpack_layers.__all__:
        if name.endswith("Error") and name != "LayersError":
            error = getattr(towerpack_layers, name)
            assert issubclass(error, towerpack_layers.LayersError)
            assert issubclass(error, (TypeError, ValueError, AttributeError, RuntimeError))


@pytest.mark.slow
def test_import_prints_and_switches_nothing() -> None:
    code = (
        "import logging, tensorflow as tf; before = (list(logging.root.handlers), tf.executing_eagerly());"
        "import towerpack_layers;"
        "assert (list(logging.root.handlers), tf.executing_eagerly()) == before;"
        "assert not logging.getLogger('towerpack_layers').handlers;"
        "assert tf.Variable(1.0).numpy() == 1.0"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
