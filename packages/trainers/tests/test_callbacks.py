"""Callbacks that change a step, with a trainer that uses a queue and cached callables."""

import json

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import (
    EMA,
    GraphProfiler,
    InferenceRunner,
    NonFiniteError,
    ScalarStats,
    TerminateOnNaN,
)
from towerpack_callbacks.nonfinite import replay
from towerpack_trainers import SimpleTrainer
from towerpack_trainers.testing import FinalVariables


def test_a_nan_batch_is_found_and_kept(kit, configure, tmp_path):
    data = kit.line_data()
    data[3][0][1] = np.nan
    kept = FinalVariables()
    with pytest.raises(
        NonFiniteError, match=r"In step 4 [\s\S]*It came with the input: \S+ float32\[4\] with 1 NaN"
    ):
        SimpleTrainer(configure(dataflow=data, callbacks=[TerminateOnNaN(), kept])).train()
    assert np.isfinite(kept.values["slope"]) and kept.values["global_step"] == 3
    folder = tmp_path / "run" / "nonfinite-4"
    with np.load(folder / "batch.npz") as batch:
        assert any(np.array_equal(batch[name], data[3][0], equal_nan=True) for name in batch.files)
    assert replay(folder).kind == "input"


def test_a_step_is_traced_and_the_others_are_not(configure, tmp_path):
    SimpleTrainer(configure(callbacks=[GraphProfiler(every="4 steps")])).train()
    traces = sorted(path.name for path in (tmp_path / "run").glob("chrome-trace-*.json"))
    assert traces == ["chrome-trace-4.json", "chrome-trace-8.json"]
    trace = json.loads((tmp_path / "run" / "chrome-trace-4.json").read_text())
    assert any("slope" in event["args"].get("op", "") for event in trace["traceEvents"])


def test_an_evaluation_with_averaged_weights(kit, configure):
    ema, kept = EMA(0.5), FinalVariables()
    data = kit.line_data(1)
    runners = [
        ema,
        InferenceRunner(data, ScalarStats("cost")),
        ema.applied_to(InferenceRunner(data, ScalarStats("cost", prefix="ema"), "Averaged")),
        kept,
    ]
    trainer = SimpleTrainer(configure(callbacks=runners))
    trainer.train()
    [[x, y]] = data
    for prefix, name in (("validation", "slope"), ("ema", "slope/ExponentialMovingAverage")):
        expected = np.mean((x * kept.values[name] - y) ** 2)
        assert trainer.monitors.get_latest(f"{prefix}_cost") == pytest.approx(expected, rel=1e-5)
    assert tf.executing_eagerly()
