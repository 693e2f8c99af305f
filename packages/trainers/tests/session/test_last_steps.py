"""A training that ends within an epoch without an error saves its last steps in a checkpoint."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import (
    Callback,
    CheckpointWriteError,
    HookToCallback,
    ModelSaver,
    PeriodicTrigger,
    StopAfter,
    StopTraining,
)
from towerpack_callbacks.checkpoint import all_checkpoints, read_checkpoint
from towerpack_dataflow import DataFromList
from towerpack_inputsource import BatchQueueInput, FeedInput, QueueInput, StagingInput, TFDatasetInput
from towerpack_trainers import SimpleTrainer

pytestmark = pytest.mark.slow


class Count(Callback):
    """Counts its calls; checkpoints include the count."""

    def __init__(self):
        self.calls = {"_before_epoch": 0, "_trigger_step": 0, "_after_epoch": 0, "_trigger_epoch": 0}

    def state_dict(self):
        return dict(self.calls)

    def load_state_dict(self, state):
        self.calls = dict(state)


def counted(name):
    def count(self):
        self.calls[name] += 1

    return count


for method in ("_before_epoch", "_trigger_step", "_after_epoch", "_trigger_epoch"):
    setattr(Count, method, counted(method))


class StopIn(Callback):
    """Stops the training once, in one of its methods."""

    def __init__(self, method, step):
        self.step = step
        setattr(self, method, self._stop)

    def _stop(self):
        if self.global_step == self.step:
            raise StopTraining("as the test asks")


def steps_in(log_dir):
    return [int(path.name.removeprefix("model-")) for path in all_checkpoints(log_dir)]


@pytest.fixture
def run(kit, configure, tmp_path):
    """Trains `Random` on 24 examples, in batches of four; returns the trainer, its count and its weights."""

    def run(*callbacks, name="run", make_input=None, saver=None, datapoints=24, **changes):
        count, weights = Count(), kit.Weights()
        flow = kit.net_flow(datapoints)
        flow.seed(1)
        data = {"dataflow": flow} if make_input is None else {"data": make_input(flow)}
        savers = [ModelSaver(keep_last=None)] if saver is None else saver
        config = configure(
            model=kit.Random(),
            callbacks=[*savers, *callbacks, count, weights],
            log_dir=tmp_path / name,
            resume="auto",
            **{"max_epoch": 4, **data, **changes},
        )
        trainer = SimpleTrainer(config)
        trainer.train()
        return trainer, count, weights

    return run


def apart_from_beginnings(calls):
    """Removes the calls of `_before_epoch`, since a resumed epoch has an additional one."""
    return {name: number for name, number in calls.items() if name != "_before_epoch"}


def queue(flow):
    return QueueInput(flow, infinite=False)


def examples(flow):
    return [(image, label) for images, labels in flow for image, label in zip(images, labels)]


def dataset(flow):
    arrays = tuple(np.stack(column) for column in zip(*examples(flow)))
    return TFDatasetInput(
        tf.data.Dataset.from_tensor_slices(arrays).batch(4, drop_remainder=True), infinite=False
    )


FINITE = {
    "queue": queue,
    "feed": lambda flow: FeedInput(flow, infinite=False),
    "dataset": dataset,
    "staged queue": lambda flow: StagingInput(queue(flow)),
    "staged dataset": lambda flow: StagingInput(dataset(flow), stages=2),
    "batch queue": lambda flow: BatchQueueInput(
        DataFromList(examples(flow), shuffle=True), 4, infinite=False
    ),
}


@pytest.mark.parametrize("steps_per_epoch", [5, 7, 20])
@pytest.mark.parametrize("make_input", FINITE.values(), ids=FINITE)
def test_the_last_steps_of_finite_data_are_saved_and_not_repeated(
    run, tmp_path, caplog, make_input, steps_per_epoch
):
    changes = {"make_input": make_input, "steps_per_epoch": steps_per_epoch, "datapoints": 28}
    _, count, weights = run(**changes)
    assert steps_in(tmp_path / "run") == sorted({*range(steps_per_epoch, 8, steps_per_epoch), 7})
    saved = read_checkpoint(tmp_path / "run")
    np.testing.assert_array_equal(saved.variables["fc0/W"], weights.values["fc0/W"])
    counted_then = saved.state["callbacks"]["Count"]
    assert apart_from_beginnings(counted_then) == apart_from_beginnings(count.calls)
    loop = saved.state["loop"]
    assert (loop["epoch_num"] - 1) * steps_per_epoch + loop["local_step"] + 1 == loop["global_step"] == 7
    files = {path: path.stat().st_mtime_ns for path in tmp_path.glob("run/model-*/*")}
    again, recount, same = run(**changes)
    assert again.loop.global_step == 7
    assert apart_from_beginnings(recount.calls) == apart_from_beginnings(count.calls)
    np.testing.assert_array_equal(saved.variables["fc0/W"], same.values["fc0/W"])
    assert "Nothing left to train after step 7: its input has ended." in caplog.text
    assert files == {path: path.stat().st_mtime_ns for path in tmp_path.glob("run/model-*/*")}


@pytest.mark.parametrize("method", ["_trigger_step", "_before_epoch", "_after_epoch", "_trigger_epoch"])
@pytest.mark.parametrize(
    "saver", [None, [PeriodicTrigger(ModelSaver(), every_k_epochs=100)]], ids=["each", "rare"]
)
def test_a_stop_and_a_resume_do_not_change_the_run(kit, run, tmp_path, method, saver):
    _, count, weights = run(name="undisturbed", saver=saver)
    stopped, _, _ = run(StopIn(method, 12), saver=saver)
    assert stopped.loop.global_step == 12
    assert steps_in(tmp_path / "run")[-1] == 12
    resumed, _, _ = run(StopIn("_trigger_step", 15), saver=saver)
    assert resumed.loop.global_step == 15
    assert steps_in(tmp_path / "run")[-1] == 15
    _, recount, same = run(saver=saver)
    kit.assert_same(weights.values, same.values)
    assert apart_from_beginnings(recount.calls) == apart_from_beginnings(count.calls)


def test_a_limit_of_steps_inside_an_epoch_has_a_checkpoint_and_makes_no_step_again(run, tmp_path, caplog):
    run(StopAfter("7 steps"))
    assert steps_in(tmp_path / "run") == [6, 7]
    assert read_checkpoint(tmp_path / "run").state["loop"]["local_step"] == 0
    again, _, _ = run(StopAfter("7 steps"))
    assert again.loop.global_step == 7 and steps_in(tmp_path / "run") == [6, 7]
    assert "Nothing left to train after step 7: the limit of StopAfter('7 steps') is reached." in caplog.text


def test_no_saver_is_added_and_no_step_is_saved_twice(run, tmp_path):
    run(StopAfter("7 steps"), saver=[])
    assert steps_in(tmp_path / "run") == []
    run(StopAfter("7 steps"), saver=[PeriodicTrigger(ModelSaver(), every_k_steps=7)], name="other")
    assert steps_in(tmp_path / "other") == [7]


def test_the_step_of_a_stopping_session_hook_is_saved(run, tmp_path):
    class Stop(tf.train.SessionRunHook):
        runs = 0

        def after_run(self, run_context, run_values):
            self.runs += 1
            if self.runs == 3:
                run_context.request_stop()

    run(HookToCallback(Stop()))
    assert steps_in(tmp_path / "run") == [3]
    assert read_checkpoint(tmp_path / "run").state["loop"]["local_step"] == 2


def test_several_steps_of_a_call_in_which_the_data_ends_are_counted(run, tmp_path):
    run(make_input=dataset, steps_per_epoch=20, steps_per_run=4, datapoints=28)
    saved = read_checkpoint(tmp_path / "run")
    assert saved.variables["global_step"] == 7
    assert saved.state["loop"] == {"epoch_num": 1, "local_step": 6, "global_step": 7, "steps_per_epoch": 20}


def test_data_that_ended_within_a_call_leaves_nothing_to_train(run, tmp_path, caplog):
    ended = {"make_input": dataset, "steps_per_epoch": 20, "steps_per_run": 4, "datapoints": 28}
    run(**ended)
    again, _, _ = run(**ended)
    assert again.loop.global_step == 7 and steps_in(tmp_path / "run") == [7]
    said = "Nothing left to train after step 7: its input ended there, within a call of steps_per_run=4."
    assert caplog.text.count(said) == 1
    once_more, _, _ = run(**{**ended, "steps_per_run": 1})
    assert once_more.loop.global_step == 7
    assert caplog.text.count("Nothing left to train after step 7") == 2


def test_a_checkpoint_that_cannot_be_written_at_the_end_fails_the_training(run, tmp_path):
    class TakeAway(Callback):
        def _trigger_step(self):
            if self.global_step == 7:
                (tmp_path / "run").rename(tmp_path / "elsewhere")

    with pytest.raises(CheckpointWriteError, match=r"model-7 could not be written: .*run is gone"):
        run(TakeAway(), StopAfter("7 steps"), saver=[PeriodicTrigger(ModelSaver(), every_k_epochs=9)])
