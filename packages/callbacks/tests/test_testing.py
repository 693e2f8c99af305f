"""The conformance kit accepts what is right, and finds what is wrong."""

import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import (
    Callback,
    MaxSaver,
    MergeAllSummaries,
    MinSaver,
    ModelSaver,
    MovingAverageSummary,
    PeriodicTrigger,
    ProgressBar,
    RunUpdateOps,
)
from towerpack_callbacks.testing import check_callback


class Stat(Callback):
    """Puts the statistic that savers watch."""

    def _trigger(self):
        self.trainer.monitors.put_scalar("stat", self.global_step)

    def produces(self):
        return ["stat"]


@pytest.mark.parametrize(
    "make",
    [
        ModelSaver,
        lambda: MaxSaver("stat"),
        lambda: MinSaver("stat"),
        lambda: PeriodicTrigger(ModelSaver(), every_k_steps=2),
        lambda: ProgressBar(["cost"], every_k_steps=2),
        RunUpdateOps,
        MovingAverageSummary,
        MergeAllSummaries,
    ],
)
def test_our_own_callbacks_conform(make, tmp_path):
    check_callback(make, tmp_path, before=[Stat()])


def test_ops_after_setup_are_found(tmp_path):
    class Late(Callback):
        def _trigger_step(self):
            tf.constant(1)

    with pytest.raises(RuntimeError, match="finalized"):
        check_callback(Late, tmp_path)


def test_a_forgotten_state_is_found(tmp_path):
    class Forgetful(Callback):
        count = 0

        def _trigger(self):
            self.count += 1

        def state_dict(self):
            return {"count": self.count}

    with pytest.raises(AssertionError, match=r"does not keep its state: saved \{'count': 2\}"):
        check_callback(Forgetful, tmp_path)


def test_a_state_that_is_no_json_is_found(tmp_path):
    class Binary(Callback):
        def state_dict(self):
            return {"data": b"x"}

    with pytest.raises(AssertionError, match="not made of JSON values"):
        check_callback(Binary, tmp_path)
