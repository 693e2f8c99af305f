"""The selection of checkpoints to keep."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towerpack_callbacks import Callback, MaxSaver, ModelSaver
from towerpack_callbacks.checkpoint import KeepBest, all_checkpoints, latest_checkpoint, read_checkpoint
from towerpack_callbacks.checkpoint._savers import Retention


def test_the_newest_stay():
    assert Retention(keep_last=2).choose([12, 3, 9, 6], {}) == {9, 12}
    assert Retention().choose([12, 3, 9, 6], {}) == {3, 6, 9, 12}


def test_the_best_stay():
    values = {3: 0.1, 6: 0.9, 9: float("nan"), 12: 0.5, 15: 0.9}
    keep = KeepBest("accuracy", count=2)
    assert Retention(keep_last=1, keep_best=keep).choose([3, 6, 9, 12, 15, 18], values) == {6, 15, 18}
    smallest = KeepBest("error", "min")
    assert Retention(keep_last=1, keep_best=smallest).choose([3, 6, 18], values) == {3, 18}


def test_the_first_of_each_stretch_stays():
    steps = [44, 88, 132, 176, 220, 264, 308]
    assert Retention(keep_last=1, keep_every=100).choose(steps, {}) == {44, 132, 220, 308}


rules = st.builds(
    Retention,
    keep_last=st.integers(1, 5),
    keep_best=st.none()
    | st.builds(KeepBest, st.just("s"), st.sampled_from(["max", "min"]), st.integers(1, 3)),
    keep_every=st.none() | st.integers(1, 50),
)


@given(rules, st.dictionaries(st.integers(0, 300), st.floats()))
def test_pruning_step_by_step_ends_as_pruning_at_once(retention, values):
    """What was removed on the way would not have stayed: so a resumed run, too, ends with the same."""
    there = set()
    for step in sorted(values):
        there.add(step)
        there = retention.choose(list(there), values)
        assert step in there
    assert there == retention.choose(list(values), values)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keep_last": 0}, r"keep_last=0: expected a whole number of at least 1, or None\."),
        ({"keep_last": True}, r"keep_last=True: expected a whole number"),
        ({"keep_every": 0.5}, r"keep_every=0.5: expected a whole number"),
        ({"on_error": "ignore"}, r"ModelSaver\(on_error='ignore'\): expected \"stop\", or \"warn\""),
    ],
    ids=str,
)
def test_wrong_rules(options, message):
    with pytest.raises(ValueError, match=message):
        ModelSaver(**options)


def test_wrong_rules_of_the_best():
    with pytest.raises(TypeError, match=r"keep_best='accuracy'\): expected KeepBest\(statistic\)"):
        ModelSaver(keep_best="accuracy")
    with pytest.raises(ValueError, match=r"KeepBest\(mode='largest'\): expected \"max\" or \"min\""):
        KeepBest("accuracy", "largest")
    with pytest.raises(ValueError, match=r"count=0: expected a whole number of at least 1\."):
        KeepBest("accuracy", count=0)


class Accuracy(Callback):
    """Puts the value of an epoch."""

    def __init__(self, values):
        self.values = values

    def _trigger(self):
        self.trainer.monitors.put_scalar("accuracy", self.values[self.epoch_num - 1])

    def produces(self):
        return ["accuracy"]


def names(directory):
    return [path.name for path in all_checkpoints(directory)]


def test_the_best_of_a_run_and_its_state(line):
    accuracy = Accuracy([0.1, 0.8, 0.3, 0.7, 0.2])
    saver = ModelSaver(keep_last=1, keep_best=KeepBest("accuracy", count=2))
    line.run([accuracy, saver], max_epoch=5)
    assert names(line.log_dir) == ["model-6", "model-12", "model-15"]
    # A run resumed from there has the values of the checkpoints.
    state = read_checkpoint(line.log_dir).state["callbacks"]["ModelSaver"]
    again = ModelSaver()
    again.load_state_dict(state)
    assert again.state_dict() == saver.state_dict() == state
    assert [6, 0.8] in state["values"]


def test_targets_of_links_are_kept(line):
    class Mark(Callback):
        def _trigger(self):
            if self.epoch_num == 2:
                (line.log_dir / "before-the-change").symlink_to("model-3")

    line.run([ModelSaver(keep_last=1), Mark(), Accuracy([3, 2, 1, 0]), MaxSaver("accuracy")], max_epoch=4)
    assert names(line.log_dir) == ["model-3", "model-12"]
    assert read_checkpoint(line.log_dir / "max-accuracy").variables["global_step"] == 3
    assert latest_checkpoint(line.log_dir).name == "model-12"
