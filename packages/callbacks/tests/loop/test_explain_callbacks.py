"""Descriptions of the actions of callbacks."""

import tensorflow.compat.v1 as tf

from towerpack_callbacks import (
    Callbacks,
    MaxSaver,
    MergeAllSummaries,
    ModelSaver,
    MovingAverageSummary,
    PeriodicTrigger,
    add_moving_summary,
    explain_callbacks,
)


def test_order_periods_fetches_statistics_and_state(line):
    with line.graph.as_default():
        cost = line.graph.get_tensor_by_name("cost:0")
        add_moving_summary(cost)
        tf.summary.scalar("cost_now", cost)
    callbacks = Callbacks(
        [
            PeriodicTrigger(ModelSaver(), every_k_steps=100),
            MaxSaver("cost"),
            MovingAverageSummary(),
            MergeAllSummaries(),
        ]
    )
    line.run(callbacks, steps=1)
    assert explain_callbacks(callbacks).splitlines() == [
        "  1. PeriodicTrigger(ModelSaver)",
        "       triggered after the step, every 100 steps",
        "       has a state in checkpoints",
        "  2. MaxSaver('cost')",
        "       triggered after every epoch",
        "       reads cost",
        "       has a state in checkpoints",
        "  3. MovingAverageSummary",
        "       with the step, every step: MovingAverageSummary/update",
        "       puts, before any trigger, cost",
        "       has a state in checkpoints",
        "  4. MergeAllSummaries",
        "       with the step, every epoch: MergeAllSummaries/Merge/MergeSummary:0",
        "       puts, before any trigger, cost_now",
    ]
