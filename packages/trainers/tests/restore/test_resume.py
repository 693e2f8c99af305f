"""A run resumed from a checkpoint equals an uninterrupted run."""

import contextlib
import json
import logging
import re

import attrs
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import (
    Callback,
    CheckpointError,
    InferenceRunner,
    JSONWriter,
    MinSaver,
    ModelSaver,
    PeriodicTrigger,
    ScalarStats,
)
from towerpack_callbacks.checkpoint import read_checkpoint, write_checkpoint
from towerpack_dataflow import MapData
from towerpack_inputsource import FeedInput, QueueInput, TFDatasetInput
from towerpack_trainers import ConfigError, RestoreError, SimpleTrainer, TrainerStateError


class Interrupt(Callback):
    """Presses Ctrl-C after a step."""

    def __init__(self, step):
        self.step = step

    def _trigger_step(self):
        if self.global_step == self.step:
            raise KeyboardInterrupt


class Sum(Callback):
    """Has a state that each step changes."""

    def __init__(self):
        self.total = 0

    def _trigger_step(self):
        self.total += self.global_step

    def state_dict(self):
        return {"total": self.total}

    def load_state_dict(self, state):
        self.total = state["total"]


class Run:
    """A training with dropout, momentum, shuffled data, validation, statistics and states."""

    def __init__(self, kit, configure, log_dir):
        self.kit, self.configure, self.log_dir = kit, configure, log_dir

    def train(self, save_every=4, interrupt=None, make_input=None, **changes):
        self.weights, self.sum, self.recorder = self.kit.Weights(), Sum(), self.kit.Recorder()
        saver = ModelSaver(keep_last=None)
        callbacks = [
            saver if save_every is None else PeriodicTrigger(saver, every_k_steps=save_every),
            InferenceRunner(self.kit.net_data(2), ScalarStats("cost")),
            MinSaver("validation_cost"),
            self.sum,
            self.weights,
            self.recorder,
        ]
        if interrupt is not None:
            callbacks.append(Interrupt(interrupt))
        flow = self.kit.net_flow()
        flow.seed(1)
        config = {
            "model": self.kit.Random(),
            "dataflow": flow,
            "callbacks": callbacks,
            "extra_callbacks": None,
            "monitors": [JSONWriter()],
            "max_epoch": 4,
            "log_dir": self.log_dir,
            **changes,
        }
        if make_input is not None:
            del config["dataflow"]
            config["data"] = make_input(flow)
        self.trainer = SimpleTrainer(self.configure(**config))
        if interrupt is None:
            self.trainer.train()
        else:
            with pytest.raises(KeyboardInterrupt):
                self.trainer.train()
        return self

    def statistics(self):
        lines = [json.loads(line) for line in (self.log_dir / "stats.jsonl").read_text().splitlines()]
        for line in lines:
            line.pop("QueueInput/queue_size", None)  # depends on time, not on the training
        return lines


@pytest.fixture
def run(kit, configure, tmp_path):
    """Makes a run in a separate directory."""
    return lambda name: Run(kit, configure, tmp_path / name)


def assert_same(one, other):
    assert one.weights.values.keys() == other.weights.values.keys()
    for name, value in one.weights.values.items():
        np.testing.assert_array_equal(value, other.weights.values[name], err_msg=name, strict=True)
    assert one.statistics() == other.statistics()
    assert one.sum.total == other.sum.total
    saved = [read_checkpoint(run.log_dir / "min-validation_cost").state for run in (one, other)]
    assert saved[0]["input"] == saved[1]["input"]
    assert (
        saved[0]["callbacks"]["MinSaver('validation_cost')"]
        == saved[1]["callbacks"]["MinSaver('validation_cost')"]
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("save_every", "interrupts"),
    [(4, [9]), (4, [4, 5, 23]), (None, [13]), (1, [6, 7, 12, 24]), (5, [3])],
    ids=["mid-epoch", "often", "at epochs", "at epochs' ends", "before any checkpoint"],
)
def test_interrupted_and_resumed_is_the_same_run(run, save_every, interrupts):
    undisturbed = run("undisturbed").train(save_every)
    resumed = run("resumed")
    for step in interrupts:
        resumed.train(save_every, interrupt=step, resume="auto")
    resumed.train(save_every, resume="auto")
    assert_same(undisturbed, resumed)


@pytest.mark.slow
@pytest.mark.parametrize("make_input", [QueueInput, FeedInput])
def test_resume_with_each_input(run, make_input):
    undisturbed = run("undisturbed").train()
    resumed = run("resumed").train(interrupt=9, make_input=make_input)
    resumed.train(make_input=make_input, resume="auto")
    assert_same(undisturbed, resumed)


def test_the_position_of_a_resumed_run(run):
    resumed = run("run").train(interrupt=9)
    resumed.train(resume="auto")
    assert resumed.recorder.calls[:3] == [
        ("before_train", 1, -1, 8),
        ("before_epoch", 2, -1, 8),
        ("trigger_step", 2, 2, 9),
    ]
    assert resumed.sum.total == sum(range(25))


def test_a_checkpoint_by_path_and_a_longer_training(run, tmp_path):
    first = run("first").train(max_epoch=2, save_every=3)
    assert first.trainer.loop.global_step == 12
    longer = run("longer").train(max_epoch=3, resume=tmp_path / "first" / "model-6")
    assert longer.recorder.calls[0] == ("before_train", 1, -1, 6)
    assert longer.trainer.loop.global_step == 18


def test_a_run_resumes_from_a_checkpoint_before_the_first_step(kit, configure, tmp_path):
    class Positions(Callback):
        def __init__(self):
            self.seen = []

        def _trigger_step(self):
            self.seen.append((self.epoch_num, self.local_step, self.global_step))

    SimpleTrainer(configure(callbacks=[PeriodicTrigger(ModelSaver(), every_k_steps=7)])).train()
    first = PeriodicTrigger(ModelSaver(), before_train=True)
    SimpleTrainer(configure(callbacks=[first], resume=tmp_path / "run" / "model-7")).train()
    positions = Positions()
    last = configure(callbacks=[PeriodicTrigger(ModelSaver(), before_train=True), positions], resume="auto")
    SimpleTrainer(last).train()
    assert positions.seen == [(2, 2, 8), (2, 3, 9), (2, 4, 10)]


def test_nothing_left_to_resume(run, caplog):
    caplog.set_level(logging.INFO)
    done = run("run").train(save_every=None, max_epoch=2)
    weights = done.weights.values
    for max_epoch in (2, 1):
        done.train(save_every=None, max_epoch=max_epoch, resume="auto")
        assert "Nothing left to train: epoch 2 of" in caplog.text
        assert [call[0] for call in done.recorder.calls] == ["before_train", "after_train"]
        for name, value in done.weights.values.items():
            np.testing.assert_array_equal(value, weights[name])


@pytest.mark.parametrize(("steps", "first"), [(2, (3, 0)), (3, (2, 2)), (12, (2, 2))])
def test_steps_per_epoch_may_change(run, steps, first):
    resumed = run("run").train(interrupt=9)  # checkpoint at step 8: 2 steps of epoch 2 are done
    resumed.train(resume="auto", steps_per_epoch=steps)
    steps_run = [call for call in resumed.recorder.calls if call[0] == "trigger_step"]
    assert steps_run[0] == ("trigger_step", *first, 9)
    assert steps_run[-1][1:3] == (4, steps - 1)


def test_a_seed_is_drawn_once(run):
    resumed = run("run").train(interrupt=9, seed=None)
    seed = resumed.trainer.seed
    assert resumed.train(interrupt=13, seed=None, resume="auto").trainer.seed == seed
    assert resumed.train(seed=7, resume="auto").trainer.seed == seed


def test_data_without_a_position_is_reported(kit, configure, caplog):
    SimpleTrainer(configure(callbacks=[ModelSaver()], max_epoch=1)).train()
    assert "has no state_dict()" not in caplog.text
    SimpleTrainer(configure(callbacks=[ModelSaver()], resume="auto")).train()
    assert "The input has no state_dict(), so it restarts from the beginning" in caplog.text


def test_the_same_flow_may_train_and_be_evaluated(kit, configure, tmp_path):
    class Model(kit.Line):
        def build_graph(self, x, y):
            total = tf.get_variable("total", [], initializer=tf.zeros_initializer())
            cost = super().build_graph(x, y)
            if self.training:
                cost = cost + 0 * total.assign_add(tf.reduce_sum(x))
            return cost

    def total(log_dir, **changes):
        lines = MapData(kit.net_flow(), lambda dp: [dp[0][:, 0].copy(), dp[0][:, 1].copy()])
        kept = kit.Weights()
        runner = InferenceRunner(lines, ScalarStats("cost"))
        saver = PeriodicTrigger(ModelSaver(), every_k_steps=1)
        callbacks = [saver, PeriodicTrigger(runner, every_k_steps=3), kept, *changes.pop("more", [])]
        trainer = SimpleTrainer(
            configure(model=Model(), dataflow=lines, callbacks=callbacks, log_dir=log_dir, **changes)
        )
        with contextlib.suppress(KeyboardInterrupt):
            trainer.train()
        return kept.values["total"]

    undisturbed = total(tmp_path / "one")
    total(tmp_path / "two", more=[Interrupt(7)])
    assert total(tmp_path / "two", resume="auto") == undisturbed


# ---- differences


def test_another_model(kit, configure):
    SimpleTrainer(configure(callbacks=[ModelSaver()])).train()
    config = configure(callbacks=[ModelSaver()], resume="auto", model=kit.Net(), dataflow=kit.net_data())
    with pytest.raises(RestoreError) as caught:
        SimpleTrainer(config).train()
    lines = str(caught.value).splitlines()
    assert lines[0].endswith("model-10 does not match this graph:")
    assert "  only in the graph: fc0/W" in lines
    assert "  only in the restored values: slope" in lines
    assert lines[-1].startswith("Build the same model; or allow the difference with resume_allow=[...];")


def test_other_callbacks(configure):
    SimpleTrainer(configure(callbacks=[ModelSaver(), Sum()])).train()
    with pytest.raises(
        CheckpointError, match=r"states of callbacks that this run lacks: Sum.*Add them, or allow"
    ):
        SimpleTrainer(configure(callbacks=[ModelSaver()], resume="auto")).train()


def test_variables_with_equal_initial_values_diverge(kit, configure):
    class Twins(kit.Line):
        def build_graph(self, x, y):
            drawn = tf.random_normal([])
            kept = [tf.Variable(drawn, name=name, trainable=False) for name in ("one", "other")]
            with tf.control_dependencies([kept[0].assign_add(1.0), kept[1].assign_sub(1.0)]):
                return tf.identity(super().build_graph(x, y))

    def run(**changes):
        kept = kit.Weights()
        SimpleTrainer(configure(model=Twins(), callbacks=[ModelSaver(), kept], **changes)).train()
        return kept.values

    once = run(max_epoch=1)
    twice = run(resume="auto", max_epoch=2)
    assert twice["one"] == once["one"] + 5
    assert twice["other"] == once["other"] - 5


def test_variables_that_differ_may_be_allowed(kit, configure, caplog):
    class Tilted(kit.Line):
        def build_graph(self, x, y):
            tilt = tf.get_variable("tilt", [], initializer=tf.ones_initializer(), trainable=False)
            return super().build_graph(x, y) + 0 * tilt

    SimpleTrainer(configure(callbacks=[ModelSaver()])).train()
    kept = kit.Weights()
    allowed = {"resume": "auto", "resume_allow": ["missing"]}
    trainer = SimpleTrainer(configure(model=Tilted(), callbacks=[ModelSaver(), kept], max_epoch=3, **allowed))
    trainer.train()
    assert "(allowed by resume_allow):\n  only in the graph: tilt" in caplog.text
    assert trainer.loop.global_step == 15
    assert kept.values["tilt"] == 1
    SimpleTrainer(configure(model=Tilted(), callbacks=[ModelSaver()], max_epoch=4, resume="auto")).train()
    with pytest.raises(RestoreError, match="only in the restored values: tilt"):
        SimpleTrainer(configure(max_epoch=5, **allowed)).train()


@pytest.mark.parametrize("kinds", [(tf.int64, tf.int32), (tf.int32, tf.int64), (tf.float32, tf.bfloat16)])
def test_variables_of_another_type_keep_their_initial_values(kit, configure, kinds):
    class Counting(kit.Line):
        def __init__(self, kind):
            self.kind = kind

        def build_graph(self, x, y):
            tf.get_variable("kept", initializer=tf.cast(7, self.kind), trainable=False)
            return super().build_graph(x, y)

    SimpleTrainer(configure(model=Counting(kinds[0]), callbacks=[ModelSaver()], max_epoch=1)).train()
    other = configure(model=Counting(kinds[1]), resume="auto")
    told = (
        rf"another shape or type: kept: the graph has {kinds[1].name}, the restored value has {kinds[0].name}"
    )
    with pytest.raises(RestoreError, match=told):
        SimpleTrainer(other).train()
    SimpleTrainer(attrs.evolve(other, resume_allow=["unequal"])).train()


def test_states_of_callbacks_may_be_skipped(configure, caplog):
    SimpleTrainer(configure(callbacks=[ModelSaver(), Sum()])).train()
    trainer = SimpleTrainer(
        configure(callbacks=[ModelSaver()], resume="auto", resume_allow=["callbacks"], max_epoch=3)
    )
    trainer.train()
    assert "Skipped them (allowed by resume_allow)" in caplog.text
    assert trainer.loop.global_step == 15


def test_files_of_callbacks_are_restored_or_skipped(configure):
    class Files(Sum):
        def save_files(self, directory):
            (directory / "total").write_text(str(self.total))

        def load_files(self, directory):
            assert self.total == int((directory / "total").read_text())
            self.total = 1000

    files = Files()
    SimpleTrainer(configure(callbacks=[ModelSaver(), files], max_epoch=1)).train()
    SimpleTrainer(configure(callbacks=[ModelSaver(), files], resume="auto")).train()
    assert files.total == 1000 + 6 + 7 + 8 + 9 + 10
    with pytest.raises(CheckpointError, match="callbacks that this run lacks: Files"):
        SimpleTrainer(configure(resume="auto", max_epoch=3)).train()
    SimpleTrainer(configure(resume="auto", max_epoch=3, resume_allow=["callbacks"])).train()


def test_other_data_may_restart_from_the_beginning(kit, configure, caplog):
    SimpleTrainer(configure(model=kit.Net(), dataflow=kit.net_flow(), callbacks=[ModelSaver()])).train()
    other = {"model": kit.Net(), "data": FeedInput(kit.net_data()), "resume": "auto", "max_epoch": 3}
    with pytest.raises(CheckpointError, match=r'from the beginning: TrainConfig\(resume_allow=\["input"\]\)'):
        SimpleTrainer(configure(**other)).train()
    other["data"] = FeedInput(kit.net_data())
    SimpleTrainer(configure(**other, resume_allow=["input"])).train()
    assert "The data restarts from the beginning" in caplog.text


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"size": 32},
            "differs from that of the checkpoint: 8 datapoints in a pass, 6 in the checkpoint.*Use the same",
        ),
        (
            {"batch": 6},
            r"4 datapoints in a batch of all processes \(now 6\). Restore these settings.*=\['batch'\]",
        ),
    ],
)
def test_data_of_another_length_or_batch_is_refused(kit, configure, changes, told):
    common = {"model": kit.Net(), "callbacks": [ModelSaver()]}
    SimpleTrainer(configure(dataflow=kit.net_flow(), **common)).train()
    other = configure(dataflow=kit.net_flow(**changes), resume="auto", max_epoch=3, **common)
    with pytest.raises(CheckpointError, match=told):
        SimpleTrainer(other).train()
    SimpleTrainer(attrs.evolve(other, resume_allow=["input"])).train()


def test_data_of_another_kind_is_detected_by_its_position(kit, configure):
    common = {"model": kit.Net(), "callbacks": [ModelSaver()]}
    SimpleTrainer(configure(dataflow=kit.net_flow(), **common)).train()
    arrays = tuple(np.stack(component) for component in zip(*kit.net_data(6, 4)))
    with pytest.raises(CheckpointError, match=r"position does not match the data: .*resume_allow"):
        data = TFDatasetInput(lambda: tf.data.Dataset.from_tensor_slices(arrays))
        SimpleTrainer(configure(data=data, resume="auto", max_epoch=3, steps_per_epoch=6, **common)).train()


def test_unused_arguments_are_reported(configure, caplog):
    SimpleTrainer(configure(callbacks=[ModelSaver()], max_epoch=1)).train()
    trainer = SimpleTrainer(configure(resume="auto", seed=5, starting_epoch=4, max_epoch=2))
    trainer.train()
    assert (trainer.seed, trainer.loop.global_step) == (1, 10)
    assert "seed=5 is not used: the resumed run keeps its seed 1." in caplog.text
    assert "starting_epoch=4 is not used: the resumed run continues in epoch 2." in caplog.text


def test_the_logged_seed_repeats_the_run(kit, configure, caplog):
    caplog.set_level(logging.INFO)

    def train(**changes):
        kept = kit.Weights()
        config = configure(model=kit.Random(), dataflow=kit.net_flow(), callbacks=[kept], **changes)
        SimpleTrainer(config).train()
        return kept.values

    first = train(seed=None)
    [seed] = re.findall(r"use seed (\d+): seed=\1 repeats it", caplog.text)
    kit.assert_same(first, train(seed=int(seed)))
    assert any((train(seed=int(seed) + 1)[name] != first[name]).any() for name in first)


@pytest.mark.parametrize("allow", ["missing", ["everything"], 3])
def test_allowed_differences(configure, allow):
    with pytest.raises(ConfigError, match="expected a list of some of 'missing', 'unused', 'unequal', 'call"):
        configure(resume_allow=allow)


def test_a_new_callback_starts_without_a_state(configure):
    SimpleTrainer(configure(callbacks=[ModelSaver()], max_epoch=1)).train()
    new = Sum()
    SimpleTrainer(configure(callbacks=[ModelSaver(), new], resume="auto")).train()
    assert new.total == 6 + 7 + 8 + 9 + 10


@pytest.mark.parametrize("name", ["layers=[3,4]", "a\\b*?\n", "ä 漢"])
def test_any_character_in_the_log_directory(configure, tmp_path, name):
    for max_epoch in (1, 2):
        changes = {"callbacks": [ModelSaver()], "monitors": None, "log_dir": tmp_path / name}
        SimpleTrainer(configure(max_epoch=max_epoch, resume="auto", **changes)).train()
    assert (tmp_path / name / "latest").resolve().name == "model-10"


def test_a_damaged_checkpoint(configure, tmp_path):
    SimpleTrainer(configure(callbacks=[ModelSaver()])).train()
    (tmp_path / "run" / "latest" / "state.json").write_text("{}")
    with pytest.raises(
        CheckpointError,
        match=r"state.json is missing or damaged.* one here is model-5: use resume='.*model-5'",
    ):
        SimpleTrainer(configure(resume="auto"))
    (tmp_path / "run" / "model-5" / "manifest.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"another checkpoint\. No other checkpoint here is complete\."):
        SimpleTrainer(configure(resume="auto"))


def test_no_checkpoint(configure, tmp_path):
    with pytest.raises(CheckpointError, match="is not a checkpoint and contains none"):
        SimpleTrainer(configure(resume=tmp_path))


def test_a_checkpoint_with_only_variables(configure, tmp_path):
    write_checkpoint(tmp_path / "run" / "model-3", {"slope": np.float32(1), "global_step": np.int64(3)}, {})
    with pytest.raises(
        CheckpointError, match=r"model-3 holds no state of a training.*session_init=SmartInit\(path\)"
    ):
        SimpleTrainer(configure(resume="auto")).train()


def test_after_an_error_a_new_trainer_continues(run):
    failing = run("run").train(interrupt=9)
    with pytest.raises(TrainerStateError, match="Make a new one, with resume= to continue"):
        failing.trainer.train()
