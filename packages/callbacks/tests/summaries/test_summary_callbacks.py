"""From summary ops to statistics."""

import json

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import (
    MergeAllSummaries,
    Monitor,
    MovingAverageSummary,
    ProxyCallback,
    add_activation_summary,
    add_moving_summary,
    add_param_summary,
    add_tensor_summary,
)
from towerpack_callbacks.summaries import summary_tag


class Keep(Monitor):
    """Keeps what is put."""

    def __init__(self):
        self.scalars, self.summaries, self.messages = [], [], []

    def process_scalar(self, name, value, global_step):
        self.scalars.append((name, value, global_step))

    def process_message(self, text):
        self.messages.append(text)

    def process_summary(self, summary, global_step):
        self.summaries.append((sorted(value.tag for value in summary.value), global_step))


class Restored(ProxyCallback):
    """Hands a callback its state, as a resumed training does."""

    def __init__(self, callback, state):
        super().__init__(callback)
        self.state = state

    def setup_graph(self, trainer):
        super().setup_graph(trainer)
        self.callback.load_state_dict(self.state)


def first_costs():
    """The costs of the line's first three steps."""
    weight, costs = 0.0, []
    for _ in range(3):
        costs.append((weight - 1) ** 2)
        weight -= 0.1 * 2 * (weight - 1)
    return costs


def test_moving_average_is_the_weighted_mean_so_far(line):
    with line.graph.as_default():
        add_moving_summary(line.graph.get_tensor_by_name("cost:0"))
    keep = Keep()
    line.run([MovingAverageSummary(decay=0.5)], monitors=[keep], max_epoch=1)
    weights = np.array([0.25, 0.5, 1.0])
    [(name, value, step)] = keep.scalars
    assert (name, step) == ("cost", 3)
    assert value == pytest.approx(np.average(first_costs(), weights=weights), rel=1e-5)


def test_moving_averages_survive_a_restart(line):
    with line.graph.as_default():
        add_moving_summary(line.graph.get_tensor_by_name("cost:0"))
    first, second = MovingAverageSummary(decay=0.5), MovingAverageSummary(decay=0.5)
    line.run([first], max_epoch=1)
    saved = json.loads(json.dumps(first.state_dict()))
    keep = Keep()
    line.run([Restored(second, saved)], monitors=[keep], max_epoch=1)
    # The costs of the second training are those of the first again.
    weights = 0.5 ** np.arange(6)[::-1]
    [(_, value, _)] = keep.scalars
    assert value == pytest.approx(np.average(first_costs() * 2, weights=weights), rel=1e-5)


def test_averages_of_another_set_of_scalars_start_again(line):
    with line.graph.as_default():
        add_moving_summary(line.graph.get_tensor_by_name("cost:0"))
    callback = MovingAverageSummary()
    line.run([Restored(callback, {"weight": 0.5, "sum": {"error": 1.0}})], max_epoch=1)
    assert callback.state_dict()["weight"] == pytest.approx(1 - 0.95**3)


def test_a_non_finite_value_is_reported(line):
    with line.graph.as_default():
        add_moving_summary(
            tf.divide(1.0, 2.0 - tf.cast(tf.train.get_global_step(), tf.float32), name="ratio")
        )
    keep = Keep()
    line.run([MovingAverageSummary()], monitors=[keep])
    assert [value for _, value, _ in keep.scalars] == [np.inf, np.inf]
    (message,) = keep.messages  # in the first epoch, and not again
    assert message.startswith("epoch 1: not finite, ratio. The callback TerminateOnNaN() stops at the first")


@pytest.mark.parametrize("decay", [1, -0.1, 2])
def test_decay_out_of_range(decay):
    with pytest.raises(ValueError, match=r"decay=.*expected a number in \[0, 1\)"):
        MovingAverageSummary(decay=decay)


@pytest.mark.parametrize("value", ["cost", 0.5, None])
@pytest.mark.parametrize(
    "add",
    [
        add_moving_summary,
        lambda value: add_moving_summary([tf.constant(1.0), value]),
        lambda value: add_tensor_summary(value, ["mean"]),
        add_activation_summary,
    ],
    ids=["moving", "list", "tensor", "activation"],
)
def test_only_tensors_have_summaries(add, value):
    with tf.Graph().as_default(), pytest.raises(TypeError, match=f"takes tensors, received {value!r}"):
        add(value)


def test_only_scalars_have_moving_averages():
    with (
        tf.Graph().as_default(),
        pytest.raises(ValueError, match=r"takes scalars, received 'x:0' of shape \(3,\)"),
    ):
        add_moving_summary(tf.zeros([3], name="x"))


def test_summaries_come_with_the_last_step_of_an_epoch(line):
    with line.graph.as_default():
        tf.summary.scalar("cost_now", line.graph.get_tensor_by_name("cost:0"))
        tf.summary.histogram("weights", line.graph.get_tensor_by_name("cost:0"))
    keep = Keep()
    line.run([MergeAllSummaries()], monitors=[keep])
    assert [(name, step) for name, _, step in keep.scalars] == [("cost_now", 3), ("cost_now", 6)]
    assert keep.summaries == [(["cost_now", "weights"], 3), (["cost_now", "weights"], 6)]


def test_summaries_every_so_many_steps(line):
    with line.graph.as_default():
        tf.summary.scalar("cost_now", line.graph.get_tensor_by_name("cost:0"))
    keep = Keep()
    line.run([MergeAllSummaries(period=2)], monitors=[keep], max_epoch=1)
    assert [step for _, _, step in keep.scalars] == [2, 3]


def test_param_summaries_match_whole_names():
    with tf.Graph().as_default() as graph:
        for name in ("conv/W", "conv/W2", "fc/W"):
            tf.get_variable(name, [2, 2])
        with tf.name_scope("anywhere"):
            add_param_summary((".*/W", ["histogram", "rms"]))
        summaries = graph.get_collection(tf.GraphKeys.SUMMARIES)
        tags = {tf.get_static_value(summary.op.inputs[0]).item().decode() for summary in summaries}
    assert tags == {"conv/W/histogram", "conv/W/rms", "fc/W/histogram", "fc/W/rms"}


def values_of(collection=tf.GraphKeys.SUMMARIES):
    """The scalars and the sums of histograms in a collection, by tag."""
    with tf.Session() as session:
        summaries = [tf.Summary.FromString(text) for text in session.run(tf.get_collection(collection))]
    values = [value for summary in summaries for value in summary.value]
    return {v.tag: v.histo.sum if v.HasField("histo") else v.simple_value for v in values}


def test_summaries_of_a_tensor():
    with tf.Graph().as_default():
        with tf.name_scope("tower0"):
            add_tensor_summary(
                tf.constant([3.0, 0.0, 4.0, 1.0], name="x"), ["mean", "rms", "histogram", "sparsity"]
            )
            add_tensor_summary(tf.constant(2, name="cost"), ["scalar"])
            add_tensor_summary(tf.constant(5.0), ["scalar"], name="five", collections=["mine"])
        rms = pytest.approx(np.sqrt(26 / 4))
        assert values_of() == {
            "x/mean": 2,
            "x/rms": rms,
            "x/histogram": 8,
            "x/sparsity": 0.25,
            "cost": 2,
        }
        assert values_of("mine") == {"five": 5}


def test_summaries_of_an_activation():
    with tf.Graph().as_default():
        add_activation_summary(tf.constant([[2.0, 0.0]], name="out"))
        add_activation_summary(tf.constant([[3.0]]), types=["mean"], name="other")
        assert values_of() == {
            "out/sparsity": 0.5,
            "out/rms": pytest.approx(np.sqrt(2)),
            "out/histogram": 2,
            "other/mean": 3,
        }


@pytest.mark.parametrize("x", [np.zeros([2, 2], np.int32), np.zeros(2, np.float32)], ids=["int", "vector"])
def test_tensors_that_are_not_activations(x):
    with (
        tf.Graph().as_default(),
        pytest.raises(ValueError, match=r"two axes or more, received 'x:0' of type"),
    ):
        add_activation_summary(tf.constant(x, name="x"))


def test_a_scalar_summary_of_a_non_scalar():
    with tf.Graph().as_default(), pytest.raises(ValueError, match=r"'scalar' needs a scalar, received 'x:0'"):
        add_tensor_summary(tf.zeros([2], name="x"), ["scalar"])


@pytest.mark.parametrize(
    "add",
    [
        lambda kind: add_param_summary((".*", [kind])),
        lambda kind: add_tensor_summary(tf.zeros([2]), [kind]),
        lambda kind: add_activation_summary(tf.zeros([2, 2]), [kind]),
    ],
)
def test_unknown_kind_of_summary(add):
    with (
        tf.Graph().as_default(),
        pytest.raises(ValueError, match=r"unknown kind 'median'; known are \['histogram'"),
    ):
        add("median")


@pytest.mark.parametrize(
    ("name", "tag"),
    [
        ("cost:0", "cost"),
        ("tower0/cost-summary:0", "cost"),
        ("my_tower0/cost", "my_tower0/cost"),
        ("a/b", "a/b"),
    ],
)
def test_tags(name, tag):
    assert summary_tag(name) == tag
