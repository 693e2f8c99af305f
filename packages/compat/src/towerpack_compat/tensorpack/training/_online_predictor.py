"""Predictors in an existing session."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

__all__ = ["OnlinePredictor", "PredictorBase"]


class PredictorBase(abc.ABC):
    """A function from inputs to outputs."""

    return_input = False

    def __call__(self, *dp: Any) -> Any:
        """Predicts for one batch, and returns the outputs; with `return_input`, also the inputs."""
        outputs = self._do_call(dp)
        return (dp, outputs) if self.return_input else outputs

    @abc.abstractmethod
    def _do_call(self, dp: Sequence[Any]) -> list[Any]:
        """Predicts for one batch."""


class OnlinePredictor(PredictorBase):
    """Predicts in an existing session, by default the default session at the first call.

    Args:
        input_tensors: tensors to feed.
        output_tensors: tensors to fetch.
        return_input: whether a call also returns its inputs.
        sess: the session.
    """

    ACCEPT_OPTIONS = False

    def __init__(
        self,
        input_tensors: Sequence[tf.Tensor],
        output_tensors: Sequence[tf.Tensor],
        return_input: bool = False,
        sess: tf.Session | None = None,
    ) -> None:
        self.input_tensors, self.output_tensors = input_tensors, output_tensors
        self.return_input, self.sess = return_input, sess
        self._call: Callable[..., list[Any]] | None = None

    def _do_call(self, dp: Sequence[Any]) -> list[Any]:
        assert len(dp) == len(self.input_tensors), f"{len(dp)} != {len(self.input_tensors)}"
        if self._call is None:
            self.sess = self.sess or tf.get_default_session()
            self._call = self.sess.make_callable(self.output_tensors, self.input_tensors)
        return list(self._call(*dp))
