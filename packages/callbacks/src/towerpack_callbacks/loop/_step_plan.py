"""What one kind of step fetches for callbacks, and who receives the values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

from ..callback import StepFetch

__all__ = ["StepPlan", "as_run_args", "merge_options"]


def as_run_args(chosen: Any) -> tf.train.SessionRunArgs:
    """Returns what a callback fetches and feeds, given as that or as a fetch structure."""
    if isinstance(chosen, tf.train.SessionRunArgs):
        return chosen
    return tf.train.SessionRunArgs(fetches=chosen)


def merge_options(options: Iterable[tf.RunOptions | None]) -> tf.RunOptions | None:
    """Merges the options of several fetches into those of one session call; None if there are none."""
    merged = None
    for each in options:
        if each is not None:
            merged = tf.RunOptions() if merged is None else merged
            merged.MergeFrom(each)
    return merged


@final
@attrs.frozen(eq=False)  # so that a plan can key a cache
class StepPlan:
    """What a step fetches besides its own ops: a value, made once for each set of fetches due together.

    Attributes:
        due: the fetches, in the order of the callbacks.
        fetches: for `Session.run`, one element per element of `due`.
        options: options that the session call needs; None, nearly always.
    """

    due: tuple[StepFetch, ...]
    fetches: list[Any] = attrs.field(init=False)
    options: tf.RunOptions | None = attrs.field(init=False)

    @fetches.default
    def _default_fetches(self) -> list[Any]:
        return [fetch.fetches for fetch in self.due]

    @options.default
    def _default_options(self) -> tf.RunOptions | None:
        return merge_options(fetch.options for fetch in self.due)

    def deliver(self, values: Iterable[Any], metadata: tf.RunMetadata | None = None) -> None:
        """Passes fetched values to their receivers.

        Args:
            values: the values of `fetches`.
            metadata: the session call's, if it had options.
        """
        for fetch, value in zip(self.due, values):
            if fetch.receive is not None:
                fetch.receive(value if fetch.options is None else (value, metadata))
