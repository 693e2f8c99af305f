"""The fetches of one kind of step for callbacks, and their receivers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, final

import tensorflow.compat.v1 as tf

from ..callback._callback import StepFetch

__all__ = ["StepPlan", "as_run_args", "merge_options"]


def as_run_args(chosen: Any) -> tf.train.SessionRunArgs:
    """Converts a fetch structure to `SessionRunArgs`, unless it already is one."""
    if isinstance(chosen, tf.train.SessionRunArgs):
        return chosen
    return tf.train.SessionRunArgs(fetches=chosen)


def merge_options(options: Iterable[tf.RunOptions | None]) -> tf.RunOptions | None:
    """Merges the options of several fetches into those of one session call; None without any options."""
    merged = None
    for each in options:
        if each is not None:
            merged = tf.RunOptions() if merged is None else merged
            merged.MergeFrom(each)
    return merged


@final
class StepPlan:
    """The extra fetches of a step: a value, made once for each set of fetches that are due together.

    Attributes:
        due: the fetches, in the order of the callbacks.
        fetches: for `Session.run`, one element per element of `due`.
        options: options of the session call; None in nearly all steps.

    Example:
        >>> from towerpack_callbacks import StepFetch
        >>> plan = StepPlan((StepFetch("cost:0", print), StepFetch("rate:0")))
        >>> plan.fetches
        ['cost:0', 'rate:0']
        >>> plan.deliver([0.5, 0.1])
        0.5
    """

    def __init__(self, due: tuple[StepFetch, ...]) -> None:
        self.due = due
        self.fetches = [fetch.fetches for fetch in due]
        self.options = merge_options(fetch.options for fetch in due)

    def deliver(self, values: Iterable[Any], metadata: tf.RunMetadata | None = None) -> None:
        """Passes fetched values to their receivers.

        Args:
            values: the values of `fetches`.
            metadata: the metadata of the session call, if it had options.
        """
        for fetch, value in zip(self.due, values):
            if fetch.receive is not None:
                fetch.receive(value if fetch.options is None else (value, metadata))
