"""Parameters that an earlier version has saved still load by name, and give the output that they gave.

The files in `golden/` are never written again; see `golden/write.py`.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from layer_table import CASES

from towerpack_layers.testing import LayerCase, ulp_distance

GOLDEN = Path(__file__).parent / "golden"
FIXED = [case for case in CASES if case.reference is not None]


def load_module(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, GOLDEN / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


layer_outputs = load_module("layer_outputs")


@pytest.mark.parametrize("case", FIXED, ids=[case.name for case in FIXED])
def test_golden_parameters_give_the_golden_output(case: LayerCase) -> None:
    with np.load(layer_outputs.path_of(case)) as file:
        stored = dict(file)
    values = {
        name.removeprefix("variables/"): value
        for name, value in stored.items()
        if name.startswith("variables/")
    }
    assert set(values) == set(case.variables)
    outputs = layer_outputs.compute(case, stored["input"], values)
    assert len(outputs) + len(values) + 1 == len(stored)
    for name, value in outputs.items():
        assert value.shape == stored[name].shape and value.dtype == stored[name].dtype
        # Other processors, and other releases of TensorFlow, add in another order.
        assert ulp_distance(value, stored[name], tf.as_dtype(value.dtype)) <= case.tolerance


def test_each_row_has_a_golden_file_and_each_file_a_row() -> None:
    assert set(GOLDEN.glob("*.npz")) == {layer_outputs.path_of(case) for case in FIXED}


def test_golden_files_are_not_written_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "layer_outputs", layer_outputs)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = {path: path.read_bytes() for path in GOLDEN.glob("*.npz")}
    assert load_module("write").main() == 1
    assert "none is ever written again" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in GOLDEN.glob("*.npz")} == before
