"""A dry run or an earlier training does not change the next training."""

import attrs
import numpy as np
import pytest

from towerpack_callbacks import EarlyStopping, HyperParamSetterWithFunc, InferenceRunner, ScalarStats
from towerpack_dataflow import BatchData, DataFromList
from towerpack_trainers import SimpleTrainer, fast_dev_run, overfit_batches
from towerpack_trainers.testing import FailAt, FinalVariables


def shuffled(count=24, scale=1.0):
    xs = np.random.default_rng(0).normal(size=count).astype(np.float32) * scale
    return BatchData(DataFromList(list(map(list, zip(xs, 3 * xs))), shuffle=True), 4)


class Inferred(ScalarStats):
    """Records the costs of all batches, in order."""

    def __init__(self):
        super().__init__("cost")
        self.batches = []

    def _on_fetches(self, values, batch_size):
        super()._on_fetches(values, batch_size)
        self.batches.append(float(values[0]))


class Script:
    """The objects that a script makes once and passes to each of its trainings."""

    def __init__(self):
        self.flow, self.validation, self.inferred = shuffled(), shuffled(16, 2.0), Inferred()
        self.validation.seed(5)
        self.callbacks = [
            InferenceRunner(self.validation, self.inferred),
            HyperParamSetterWithFunc("slope", lambda _, old: 0.9 * old),
            EarlyStopping("validation_cost", patience=1, min_delta=0.01),
        ]

    def config(self, configure, **changes):
        return configure(dataflow=self.flow, callbacks=self.callbacks, max_epoch=4, **changes)


def train(script, config):
    """Trains, and returns all results that may differ."""
    script.inferred.batches.clear()
    end = FinalVariables()
    trainer = SimpleTrainer(attrs.evolve(config, callbacks=[*config.callbacks, end]))
    trainer.train()
    return end.values, list(script.inferred.batches), trainer.state_dict()


@pytest.mark.slow
@pytest.mark.parametrize("before", ["dry run", "training", "overfitting", "failed training"])
def test_a_second_training_equals_the_first(before, configure):
    used, new = Script(), Script()
    config = used.config(configure, seed=3)
    if before == "failed training":
        fails = attrs.evolve(
            config, callbacks=[*config.callbacks, FailAt("_trigger_step", OSError(), step=9)]
        )
        with pytest.raises(OSError):
            SimpleTrainer(fails).train()
    else:
        first = {"dry run": fast_dev_run, "overfitting": overfit_batches, "training": lambda same: same}
        train(used, first[before](config))
    values, batches, state = train(used, config)
    expected, expected_batches, expected_state = train(new, new.config(configure, seed=3))
    np.testing.assert_equal(values, expected)
    assert batches == expected_batches
    assert state == expected_state


def test_an_earlier_position_of_a_flow_is_kept(configure):
    script = Script()
    script.flow.load_state_dict({"seed": 7, "epoch": 2, "index": 3})
    config = script.config(configure, seed=None)
    first, second = (train(script, config)[2]["input"]["flow"] for _ in range(2))
    assert (first["epoch"], first["index"]) == (second["epoch"], second["index"])
    assert script.flow.state_dict()["index"] == 3


def test_a_live_flow_keeps_its_contents(kit, configure):
    class Live(list):
        live = True
        loaded = False

        def state_dict(self):
            return {"held": 3}

        def load_state_dict(self, state):
            self.loaded = True

    flow = Live(kit.line_data())
    SimpleTrainer(fast_dev_run(configure(dataflow=flow))).train()
    assert not flow.loaded
