"""Callbacks that record a training, or end it on purpose."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from towerpack_callbacks import Callback
from towerpack_callbacks.checkpoint import snapshot_variables

__all__ = ["FailAt", "FinalVariables", "Recorder"]


class Recorder(Callback):
    """Records the calls of its methods with the loop's counters.

    Attributes:
        calls: tuples of the method's name without its underscore, `epoch_num`, `local_step` and
            `global_step`, in the order of the calls.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, int, int, int]] = []

    def note(self, what: str) -> None:
        """Appends an entry to `calls`; a subclass may record more."""
        loop = self.trainer.loop
        self.calls.append((what, loop.epoch_num, loop.local_step, loop.global_step))

    def _before_train(self) -> None:
        self.note("before_train")

    def _before_epoch(self) -> None:
        self.note("before_epoch")

    def _trigger_step(self) -> None:
        self.note("trigger_step")

    def _after_epoch(self) -> None:
        self.note("after_epoch")

    def _trigger_epoch(self) -> None:
        self.note("trigger_epoch")

    def _after_train(self) -> None:
        self.note("after_train")


@final
class FinalVariables(Callback):
    """Keeps the values of all global variables at the end of the training.

    Attributes:
        values: arrays by variable name; empty before the end.
    """

    def __init__(self) -> None:
        self.values: dict[str, np.ndarray] = {}

    def _after_train(self) -> None:
        self.values = snapshot_variables(self.trainer.sess, self.graph.get_collection("variables"))


@final
class FailAt(Callback):
    """Raises an error in one of its methods.

    Args:
        method: the method's name, such as "_trigger_step".
        error: the error.
        step: the first global step at which it is raised.
    """

    def __init__(self, method: str, error: BaseException, step: int = 0) -> None:
        def fail(*_: Any) -> None:
            if self.global_step >= step:
                raise error

        setattr(self, method, fail)
        self.method = method

    def overrides(self, method: str) -> bool:
        """Returns whether the loop has to call a method: the failing one is set on the instance only."""
        return method == self.method or super().overrides(method)
