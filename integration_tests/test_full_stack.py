"""The five wheels together: training on digits, resuming, predicting; also when it is killed."""

import json
import os
import signal

import attrs
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, InferenceRunner, MaxSaver, ModelSaver, ScalarStats
from towerpack_callbacks.checkpoint import all_checkpoints, read_checkpoint
from towerpack_dataflow import BatchData, DataFlow, DataFromList, MapData
from towerpack_dataflow.datasets import Digits
from towerpack_layers import Conv2D, FullyConnected, LinearWrap, argscope
from towerpack_trainers import ModelDesc, SimpleTrainer, SyncMultiGPUTrainer, TrainConfig


def statistics(log_dir):
    lines = [json.loads(line) for line in (log_dir / "stats.jsonl").read_text().splitlines()]
    for line in lines:
        line.pop("QueueInput/queue_size", None)  # depends on timing, not on the training
    return lines


@pytest.mark.slow
def test_the_demo_learns_and_leaves_its_files(demo, tmp_path, capsys):
    config = TrainConfig(
        model=demo.LeNet(),
        dataflow=BatchData(Digits("train"), 32),
        callbacks=[
            ModelSaver(keep_last=2),
            InferenceRunner(BatchData(Digits("test"), 256, remainder=True), ScalarStats("accuracy")),
            MaxSaver("validation_accuracy"),
        ],
        max_epoch=4,
        log_dir=tmp_path / "run",
        seed=1,
    )
    SimpleTrainer(config).train()
    lines = statistics(tmp_path / "run")
    assert [line["epoch_num"] for line in lines] == [1, 2, 3, 4]
    assert lines[-1]["cost"] < 0.5 * lines[0]["cost"]
    assert lines[-1]["validation_accuracy"] > 0.9
    assert len(all_checkpoints(tmp_path / "run")) == 2
    best = read_checkpoint(tmp_path / "run" / "max-validation_accuracy")
    assert best.state["callbacks"]["MaxSaver('validation_accuracy')"]["best"] == max(
        line["validation_accuracy"] for line in lines
    )
    [events] = (tmp_path / "run").glob("events.out.tfevents.*")
    tags = {value.tag for event in tf.train.summary_iterator(str(events)) for value in event.summary.value}
    assert {"cost", "validation_accuracy", "fc1/W/histogram"} <= tags
    assert "epoch 4/4" in capsys.readouterr().err


# ---- one training, in this process and in others


@pytest.fixture(scope="module")
def undisturbed(training, tmp_path_factory):
    """A whole run in this process: its directory, its weights, and its predictions."""
    images = next(iter(BatchData(Digits("test"), 50)))[0]

    class Keep(Callback):
        def _setup_graph(self):
            self.predict = self.trainer.get_predictor(["image"], ["logits"])

        def _after_train(self):
            self.logits = self.predict(images)[0]

    log_dir = tmp_path_factory.mktemp("undisturbed") / "run"
    keep, weights = Keep(), training.Weights()
    # Also at the end, so that the latest checkpoint has the weights that predict in this process.
    config = training.configure(log_dir, [keep, weights, ModelSaver()])
    SimpleTrainer(config).train()
    return log_dir, weights.values, keep.logits


@pytest.mark.slow
def test_a_fresh_process_predicts_the_very_same(start, undisturbed, tmp_path):
    log_dir, _, logits = undisturbed
    process = start("training.py", log_dir, "--predict", tmp_path / "logits.npy")
    _, errors = process.communicate(timeout=250)
    assert process.returncode == 0, errors
    np.testing.assert_array_equal(np.load(tmp_path / "logits.npy"), logits, strict=True)


def wait_for(process, line):
    for printed in process.stdout:
        if printed == line:
            return
    raise AssertionError(process.stderr.read())


def assert_goes_on_as_if_undisturbed(training, log_dir, undisturbed):
    whole, values, _ = undisturbed
    # Checkpoints are written in the background: that of step 90 may be incomplete.
    assert 80 <= read_checkpoint(log_dir).state["loop"]["global_step"] < values["global_step"]
    weights = training.Weights()
    SimpleTrainer(training.configure(log_dir, [weights], resume="auto")).train()
    for name, value in values.items():
        np.testing.assert_array_equal(weights.values[name], value, err_msg=name, strict=True)
    assert statistics(log_dir) == statistics(whole)


@pytest.mark.slow
def test_a_killed_training_goes_on(start, training, undisturbed, tmp_path):
    process = start("training.py", tmp_path / "run", "--tell", 97)
    wait_for(process, "step 97\n")
    process.kill()
    assert process.wait(timeout=250) == -signal.SIGKILL
    assert_goes_on_as_if_undisturbed(training, tmp_path / "run", undisturbed)


@pytest.mark.slow
def test_ctrl_c_leaves_in_good_order(start, training, undisturbed, tmp_path):
    process = start("training.py", tmp_path / "run", "--tell", 97)
    wait_for(process, "step 97\n")
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=250)
    assert process.returncode in {-signal.SIGINT, 128 + signal.SIGINT}
    assert output.splitlines()[-1] == "threads: MainThread"
    assert errors.splitlines()[-1] == "KeyboardInterrupt"
    assert not [name for name in os.listdir(tmp_path / "run") if name.startswith(".")]
    assert_goes_on_as_if_undisturbed(training, tmp_path / "run", undisturbed)


@pytest.mark.slow
def test_an_error_in_the_flow_ends_the_process_with_its_own_name(start, tmp_path):
    process = start("training.py", tmp_path / "run", "--fail", 900)
    output, errors = process.communicate(timeout=250)
    assert process.returncode == 1
    assert output == "threads: MainThread\n"
    assert "BadImageError: this image cannot be decoded" in errors
    assert "in decode_image\n    raise BadImageError(" in errors
    assert "OutOfRangeError" not in errors
    assert "CancelledError" not in errors


def test_a_flow_in_an_attrs_class_is_found():
    @attrs.define
    class Part:
        flow: DataFlow

    class Doubled(DataFlow):
        def __init__(self):
            self.parts = [Part(DataFromList(list(range(12))))]

        def __iter__(self):
            return (2 * number for number in self.parts[0].flow)

    flow, below = Doubled(), DataFromList(list(range(12)))
    flow.seed(7)
    expected = MapData(below, lambda number: 2 * number)
    expected.seed(7)
    assert [list(flow), list(flow)] == [list(expected), list(expected)]


# ---- in parallel, and on several devices


@pytest.mark.slow
def test_two_trainings_in_one_process_do_not_disturb_each_other(training, undisturbed, tmp_path):
    square = tf.constant([1.0, 2.0]) ** 2
    weights = [training.Weights(), training.Weights()]
    trainers = [
        SimpleTrainer(training.configure(tmp_path / str(number), [weight, ModelSaver()]))
        for number, weight in enumerate(weights)
    ]
    for trainer in reversed(trainers):
        trainer.train()
    _, values, _ = undisturbed
    for weight in weights:
        for name, value in values.items():
            np.testing.assert_array_equal(weight.values[name], value, err_msg=name)
    assert tf.executing_eagerly()
    assert square.numpy().tolist() == [1, 4]
    assert tf.function(lambda x: x + 1)(square).numpy().tolist() == [2, 5]


class Even(ModelDesc):
    """A LeNet without dropout, whose towers' losses average to that of all their batches."""

    def inputs(self):
        return [tf.TensorSpec([None, 8, 8], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label")]

    def build_graph(self, image, label):
        with argscope([Conv2D, FullyConnected], activation=tf.nn.relu):
            hidden = (
                LinearWrap(tf.expand_dims(image, 3))
                .Conv2D("conv0", 8, 3)
                .MaxPooling("pool", 2)
                .FullyConnected("fc0", 32)()
            )
        logits = FullyConnected("fc1", hidden, 10)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits)
        correct = tf.equal(tf.argmax(logits, 1, output_type=tf.int32), label)
        tf.reduce_mean(tf.cast(correct, tf.float32), name="accuracy")
        return tf.reduce_mean(loss, name="cost")

    def optimizer(self):
        return tf.train.MomentumOptimizer(0.05, 0.9)


@pytest.mark.slow
def test_two_devices_are_one_with_twice_the_batch(training, tmp_path):
    ends = []
    for make, batch in (
        (SimpleTrainer, 64),
        (lambda config: SyncMultiGPUTrainer(config, ["/cpu:0", "/cpu:1"]), 32),
    ):
        weights = training.Weights()
        test = BatchData(Digits("test"), 100, remainder=True)
        config = TrainConfig(
            model=Even(),
            # In order, and whole batches only, so that two small ones are one large one.
            dataflow=BatchData(Digits("train", shuffle=True), batch),
            callbacks=[weights, InferenceRunner(test, ScalarStats("accuracy"))],
            steps_per_epoch=20,
            max_epoch=1,
            log_dir=None,
            seed=1,
        )
        trainer = make(config)
        trainer.train()
        ends.append((weights.values, trainer.monitors.get_latest("validation_accuracy")))
    (one, accuracy), (two, other) = ends
    for name in ("conv0/W", "conv0/b", "fc0/W", "fc1/W"):
        np.testing.assert_allclose(two[name], one[name], rtol=1e-4, atol=1e-5, err_msg=name)
    assert accuracy == pytest.approx(other, abs=0.01)
    assert accuracy > 0.5
