"""The examples run as a user runs them."""

import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback
from towerpack_callbacks.checkpoint import snapshot_variables
from towerpack_dataflow import BatchData, DataFromList
from towerpack_trainers import TrainConfig
from towerpack_trainers.optimize import PostProcessOptimizer

TWO = ["/cpu:0", "/cpu:1"]


@pytest.mark.long
@pytest.mark.slow
def test_the_demo_trains_resumes_and_predicts(run, tmp_path):
    log_dir = tmp_path / "train_log" / "digits_lenet"
    output, errors = run("digits_lenet.py", "--epochs", 2)
    assert "epoch 2/2, step 90: cost " in errors
    assert re.search(r"fc1/W +\(512, 10\) +5,120 +float32", errors)
    final = r"validation accuracy 0\.\d{4} \(best 0\.\d{4}\), \d+ steps/s, \d+\.\d s of training steps"
    assert re.fullmatch(final, output.splitlines()[-1])
    assert re.search(r"epoch 2/2, step \d+: .*validation_accuracy", errors)
    assert len((log_dir / "stats.jsonl").read_text().splitlines()) == 2
    assert list(log_dir.glob("events.out.tfevents.*"))
    checkpoint = (log_dir / "latest").resolve()

    output, errors = run("digits_lenet.py", "--resume", "--epochs", 3)
    assert f"Resuming from {checkpoint}." in errors
    assert "epoch 3/3, step 135: cost " in errors
    assert "epoch 2/3" not in errors
    assert re.fullmatch(final, output.splitlines()[-1])
    assert len((log_dir / "stats.jsonl").read_text().splitlines()) == 3

    output, _ = run("digits_lenet.py", "--resume", "--epochs", 3)
    assert output.splitlines()[-1] == "no epoch was finished in this run"

    output, _ = run("digits_lenet.py", "--load")
    lines = output.splitlines()
    assert len(lines) == 16
    assert all(re.fullmatch(r"truth \d  predicted \d  \(\d+\.\d%\)(  wrong)?", line) for line in lines)
    assert sum("wrong" not in line for line in lines) >= 12


@pytest.mark.long
@pytest.mark.slow
def test_the_plain_loop(run, tmp_path):
    output, _ = run("plain_loop.py")
    found = re.search(
        r"accuracy (0\.\d{4}); checkpoints, events and stats.jsonl are in train_log/plain_loop", output
    )
    assert float(found.group(1)) > 0.9
    assert (tmp_path / "train_log" / "plain_loop" / "stats.jsonl").exists()


@pytest.mark.long
@pytest.mark.slow
def test_the_character_model_trains_and_writes(run, tmp_path):
    small = ["--units", 64]
    output, _ = run("char_rnn.py", "--epochs", 1, *small)
    found = re.fullmatch(
        r"perplexity (\d+\.\d\d) on held-out text, of (\d+) characters", output.splitlines()[-1]
    )
    # The perplexity of a unigram model is about 26.
    assert float(found.group(1)) < 12 < int(found.group(2))

    texts = [run("char_rnn.py", "--sample", 60, *small, "--seed", seed)[0] for seed in (1, 2)]
    assert [len(text) for text in texts] == [61, 61]
    assert texts[0] != texts[1]


@pytest.mark.long
@pytest.mark.slow
def test_slim_inside(run, tmp_path):
    output, _ = run("slim_inside.py", "--devices", *TWO, "--epochs", 2)
    (found,) = re.findall(r"^validation accuracy (\d\.\d{4})$", output, re.MULTILINE)
    assert float(found) > 0.9


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("towers", [1, 2])
def test_a_keras_model(run, towers):
    output, _ = run("keras_digits.py", "--epochs", 4, "--towers", towers)
    assert float(re.fullmatch(r"accuracy (0\.\d{3})", output.splitlines()[-1]).group(1)) > 0.6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "pattern", "lowest", "highest"),
    [
        ("gan.py", r"mean distance (\d\.\d\d); the ring has 1", 0.7, 1.3),
        pytest.param("agent.py", r"mean return (\d+) after \d+ steps", 50, 500, marks=pytest.mark.long),
        ("data_alone.py", r"accuracy (0\.\d{3}); equal after a stop: True", 0.9, 1),
        ("own_loop.py", r"cost (\d\.\d{3})", 0, 0.4),
    ],
)
def test_a_script_with_all_annotations(run_example_of, script, pattern, lowest, highest):
    figure = float(re.fullmatch(pattern, run_example_of("annotated", script)).group(1))
    assert lowest <= figure <= highest


@pytest.mark.slow
def test_the_classifier_with_all_annotations(run_example_of):
    truth, predicted = re.findall(r"\[(.*?)\]", run_example_of("annotated", "classifier.py"))
    assert sum(one == other for one, other in zip(truth.split(", "), predicted.split(", "))) >= 8


@pytest.mark.long
@pytest.mark.slow
def test_the_own_trainer(run, tmp_path):
    output, _ = run("own_trainer.py", "--devices", *TWO, "--critic-steps", 3, "--epochs", 2)
    found = re.fullmatch(r"distance (\d\.\d{3}) after 400 steps", output.splitlines()[-1])
    # The initial value is the distance of the given points from the origin, 2.2.
    assert float(found.group(1)) < 0.5


def test_the_own_trainer_is_short_and_of_public_names(own_trainer):
    text = Path(own_trainer.__file__).read_text()
    trainer = text.partition("# ---- the trainer\n")[2].partition("# ---- ")[0]
    assert "class GANTrainer(TowerTrainer)" in trainer
    assert len(trainer.strip().splitlines()) < 60
    assert not re.search(r"towerpack_\w+(\.\w+)*\._", text)
    # The hook that TowerTrainer documents, and nothing else that is private.
    assert set(re.findall(r"\b_\w+", trainer)) == {"__init__", "_setup"}


def count_updates(name):
    """An optimizer that counts the updates of the last bias of one network in a variable."""

    def count(variable):
        if not variable.op.name.endswith("fc1/b"):
            return None
        with tf.init_scope():
            counter = tf.get_variable(name, [], tf.int64, tf.zeros_initializer(), trainable=False)
        return counter.assign_add(1, read_value=False)

    return PostProcessOptimizer(tf.train.GradientDescentOptimizer(0.05), count)


class Values(Callback):
    """Keeps all variables' values before the training and after each step."""

    def __init__(self):
        self.after = []

    def keep(self):
        self.after.append(snapshot_variables(self.trainer.sess, self.graph.get_collection("variables")))

    def _before_train(self):
        self.keep()

    def _trigger_step(self):
        self.keep()


@pytest.fixture
def play(own_trainer, tmp_path):
    """Trains four steps of the GAN in double precision, by plain descent, and returns the values of each."""

    class Model(own_trainer.Points):
        dtype = tf.float64

        def critic_optimizer(self):
            return count_updates("critic_updates")

        def generator_optimizer(self):
            return count_updates("generator_updates")

    def train(batch, critic_steps, devices, points=None):
        random = np.random.default_rng(0)
        points = random.normal(size=(2 * 16 * 8, 2, 2)) if points is None else points
        values = Values()
        config = TrainConfig(
            model=Model(),
            dataflow=BatchData(DataFromList([list(pair) for pair in points], shuffle=False), batch),
            callbacks=[values],
            steps_per_epoch=4,
            max_epoch=1,
            monitors=[],
            log_dir=None,
            seed=3,
        )
        own_trainer.GANTrainer(config, critic_steps, devices).train()
        return values.after

    return train


@pytest.mark.slow
def test_the_own_trainer_trains_its_critic_more_often(play):
    begin, *_, end = play(8, 3, [])
    assert (end["critic_updates"], end["generator_updates"], end["global_step"]) == (12, 4, 4)
    moved = {name for name in begin if np.any(begin[name] != end[name])}
    assert {"critic/fc0/W", "critic/fc1/W", "generator/fc0/W", "generator/fc1/W"} <= moved


@pytest.mark.slow
def test_the_own_trainer_takes_a_batch_for_each_run(play):
    """The content of a batch affects its step, and no earlier one."""
    random = np.random.default_rng(0)
    points = random.normal(size=(16, 8, 2, 2))
    other = points.copy()
    other[1] += 1  # of the critic's second run, in the first step
    last = points.copy()
    last[4:] += 1  # of the second step
    one, two, three = (play(8, 3, [], batches.reshape(-1, 2, 2)) for batches in (points, other, last))
    assert np.abs(two[1]["critic/fc0/W"] - one[1]["critic/fc0/W"]).max() > 1e-4
    np.testing.assert_array_equal(three[1]["critic/fc0/W"], one[1]["critic/fc0/W"])
    assert np.abs(three[2]["critic/fc0/W"] - one[2]["critic/fc0/W"]).max() > 1e-4


class TrainCritic(Callback):
    """Runs one step of the critic before the training."""

    def _before_train(self):
        self.trainer.sess.run(self.trainer.critic_op)


@pytest.mark.slow
def test_critic_steps_leave_the_generator_alone(own_trainer):
    config = TrainConfig(
        model=own_trainer.Points(),
        dataflow=own_trainer.make_flow(8, 64),
        callbacks=[values := Values(), TrainCritic(), again := Values()],
        steps_per_epoch=1,
        max_epoch=1,
        monitors=[],
        log_dir=None,
    )
    trainer = own_trainer.GANTrainer(config, 1, TWO)

    trainer.train()
    begin, middle, end = values.after[0], *again.after
    changed = {name for name in begin if np.any(begin[name] != middle[name])}
    assert changed and all(name.startswith("critic/") for name in changed)
    assert np.any(middle["generator/fc1/W"] != end["generator/fc1/W"])


@pytest.mark.slow
def test_two_devices_of_the_own_trainer_are_one_with_their_batches(play):
    one, two = play(16, 3, []), play(8, 3, TWO)
    assert len(one) == len(two) == 5
    for mine, theirs in zip(one, two, strict=True):
        for name in mine:
            np.testing.assert_allclose(theirs[name], mine[name], rtol=1e-6, atol=1e-12, err_msg=name)


@pytest.mark.long
@pytest.mark.slow
def test_the_boilerplate(run):
    output, _ = run("boilerplate.py", "--epochs", 2)
    assert float(re.fullmatch(r"accuracy (0\.\d{4})", output.splitlines()[-1]).group(1)) > 0.8
    # In the directory of the first run, which the second one moves aside.
    weights = "train_log/boilerplate/max-validation_accuracy"
    output, _ = run("boilerplate.py", "--epochs", 1, "--load", weights, "--devices", *TWO)
    assert float(re.fullmatch(r"accuracy (0\.\d{4})", output.splitlines()[-1]).group(1)) > 0.85


@pytest.mark.long
@pytest.mark.slow
def test_pictures_of_a_network(run, tmp_path):
    run("visualizations.py", "--epochs", 2)
    (events,) = (tmp_path / "train_log" / "visualizations").glob("events.out.tfevents.*")
    seen = {}
    for event in tf.train.summary_iterator(str(events)):
        seen.update({value.tag: value for value in event.summary.value})
    # 4 columns and rows, 2 pixels between them and around.
    assert [seen["kernels"].image.width, seen["kernels"].image.height] == [4 * (5 + 2) + 2] * 2
    assert [seen["findings"].image.width, seen["findings"].image.height] == [4 * (8 + 2) + 2] * 2
    assert seen["conv0/output/histogram"].histo.num == 32 * 8 * 8 * 16
    assert {"conv0/W/histogram", "conv1/W-grad/histogram", "conv1/output/sparsity"} < set(seen)
