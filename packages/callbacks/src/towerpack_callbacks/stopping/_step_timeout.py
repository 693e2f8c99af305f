"""Limits how long a step may take."""

from __future__ import annotations

from typing import Any, final

import tensorflow.compat.v1 as tf

from ..callback import Callback

__all__ = ["SessionRunTimeout"]


@final
class SessionRunTimeout(Callback):
    """Ends the training with `tf.errors.DeadlineExceededError` if a step takes too long.

    It finds steps that wait for ever, on data or on another process. Options are given to each session call,
    so steps cost somewhat more (about 0.1 ms). For a limit at no cost, give the session
    `tf.ConfigProto(operation_timeout_in_ms=...)`, which concerns evaluations and predictions, too.

    Args:
        timeout_in_ms: the longest a step may take, in milliseconds.

    Raises:
        ValueError: it is not a positive whole number.
    """

    chief_only = False

    def __init__(self, timeout_in_ms: int) -> None:
        if not isinstance(timeout_in_ms, int) or timeout_in_ms < 1:
            raise ValueError(
                f"SessionRunTimeout(timeout_in_ms={timeout_in_ms!r}): expected a whole number of at least 1."
            )
        self._args = tf.train.SessionRunArgs([], options=tf.RunOptions(timeout_in_ms=timeout_in_ms))

    def _before_run(self, context: Any) -> Any:
        return self._args
