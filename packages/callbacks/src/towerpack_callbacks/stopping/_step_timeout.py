"""Limits the duration of a step."""

from __future__ import annotations

from typing import Any, final

import tensorflow.compat.v1 as tf

from ..callback import Callback, check_count

__all__ = ["SessionRunTimeout"]


@final
class SessionRunTimeout(Callback):
    """Ends the training with `tf.errors.DeadlineExceededError` when a step exceeds a time limit.

    Use it to detect steps that wait forever for data or for another process. It passes options to each
    session call, which adds a small cost to each step. For a limit without this cost, give the session
    `tf.ConfigProto(operation_timeout_in_ms=...)`, which also applies to evaluations and predictions.

    Args:
        timeout_in_ms: the maximum duration of a step, in milliseconds.

    Raises:
        ValueError: `timeout_in_ms` is not a positive whole number.
    """

    chief_only = False

    def __init__(self, timeout_in_ms: int) -> None:
        check_count(f"SessionRunTimeout(timeout_in_ms={timeout_in_ms!r})", timeout_in_ms)
        self._args = tf.train.SessionRunArgs([], options=tf.RunOptions(timeout_in_ms=timeout_in_ms))

    def _before_run(self, context: Any) -> Any:
        return self._args
