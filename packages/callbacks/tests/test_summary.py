"""From summary ops to statistics."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import (
    MergeAllSummaries,
    Monitor,
    MovingAverageSummary,
    add_moving_summary,
    add_param_summary,
)
from towerpack_callbacks._summary_ops import summary_tag


class Keep(Monitor):
    """Keeps what is put."""

    def __init__(self):
        self.scalars, self.summaries = [], []

    def process_scalar(self, name, value, global_step):
        self.scalars.append((name, value, global_step))

    def process_summary(self, summary, global_step):
        self.summaries.append((sorted(value.tag for value in summary.value), global_step))


def test_moving_average_is_the_weighted_mean_so_far(line):
    with line.graph.as_default():
        add_moving_summary(line.graph.get_tensor_by_name("cost:0"))
    keep = Keep()
    line.run([MovingAverageSummary(decay=0.5)], monitors=[keep], max_epoch=1)
    weight, costs = 0.0, []
    for _ in range(3):
        costs.append((weight - 1) ** 2)
        weight -= 0.1 * 2 * (weight - 1)
    weights = np.array([0.25, 0.5, 1.0])
    [(name, value, step)] = keep.scalars
    assert (name, step) == ("cost", 3)
    assert value == pytest.approx(np.average(costs, weights=weights), rel=1e-5)


def test_moving_averages_survive_a_restart(line):
    with line.graph.as_default():
        add_moving_summary(line.graph.get_tensor_by_name("cost:0"))
    first = MovingAverageSummary()
    line.run([first])
    state = first.state_dict()
    assert set(state["sum"]) == {"cost"}


@pytest.mark.parametrize("decay", [1, -0.1, 2])
def test_decay_out_of_range(decay):
    with pytest.raises(ValueError, match=r"decay=.*expected a number in \[0, 1\)"):
        MovingAverageSummary(decay=decay)


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


def test_unknown_kind_of_summary():
    with (
        tf.Graph().as_default(),
        pytest.raises(ValueError, match=r"unknown kind 'median'; known are \['histogram'"),
    ):
        add_param_summary((".*", ["median"]))


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
