"""`Callback` with Tensorpack's methods, over Towerpack's."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from operator import attrgetter
from typing import Any

import tensorflow.compat.v1 as tf

import towerpack_callbacks as callbacks

from ..utils import logger
from ..utils.graph import get_op_or_tensor_by_name, get_op_tensor_name

__all__ = ["Callback", "CallbackToHook", "CheckNumerics", "SimpleMovingAverage", "TensorPrinter", "averages"]


class Callback(callbacks.Callback):
    """Runs code around the training steps; see `towerpack_callbacks.Callback` for the loop.

    Attributes:
        name_scope: the name scope of its ops; "" for the name of the class.
    """

    _chief_only = True
    name_scope = ""

    chief_only = property(
        attrgetter("_chief_only"),
        lambda self, value: setattr(self, "_chief_only", value),
        doc="Whether only the chief process runs it.",
    )

    def set_chief_only(self, v: bool = True) -> Callback:
        """Sets `chief_only`, and returns the callback."""
        self.chief_only = v
        return self

    def before_train(self) -> None:
        """Runs once, before the first epoch."""
        self._before_train()

    def before_epoch(self) -> None:
        """Runs before an epoch."""
        self._before_epoch()

    def after_epoch(self) -> None:
        """Runs after an epoch's last step."""
        self._after_epoch()

    def before_run(self, ctx: Any) -> Any:
        """Returns further tensors to fetch in a step."""
        fetches = self._before_run(ctx)
        if fetches is None or isinstance(fetches, tf.train.SessionRunArgs):
            return fetches
        return tf.train.SessionRunArgs(fetches=fetches)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Receives the fetched values of a step."""
        self._after_run(run_context, run_values)

    def trigger_step(self) -> None:
        """Runs after each step."""
        self._trigger_step()

    def trigger_epoch(self) -> None:
        """Runs after each epoch."""
        self._trigger_epoch()

    def after_train(self) -> None:
        """Runs once, at the end."""
        self._after_train()

    def get_tensors_maybe_in_tower(self, names: Sequence[str]) -> list[Any]:
        """Returns tensors of the graph or, if it has none of these names, of the first training tower."""
        return [self._tensor(name) for name in names]

    def _tensor(self, name: str) -> Any:
        try:
            found = get_op_or_tensor_by_name(name)
            return found.outputs[0] if isinstance(found, tf.Operation) and found.outputs else found
        except KeyError:
            towers = getattr(self.trainer, "towers", None)
            if towers is None:
                raise
            return towers.training()[0].get_tensor(name)


callbacks.Callback.set_chief_only = Callback.set_chief_only  # type: ignore[attr-defined]


class CallbackToHook(tf.train.SessionRunHook):
    """Wraps `before_run` and `after_run` of a callback in a session hook.

    Args:
        cb: the callback.
    """

    def __init__(self, cb: Callback) -> None:
        self._callback = cb

    def before_run(self, run_context: Any) -> Any:
        return self._callback.before_run(run_context)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._callback.after_run(run_context, run_values)


def CheckNumerics(run_as_trigger: bool = True, run_step: bool = False) -> callbacks.RunOp:
    """Returns a callback that raises an error if a trainable variable is not finite.

    Args:
        run_as_trigger: whether to check when it is triggered.
        run_step: whether to check in each step.
    """

    def check() -> tf.Operation:
        checks = [
            tf.check_numerics(variable, f"CheckNumerics['{variable.op.name}']")
            for variable in tf.trainable_variables()
        ]
        return tf.group(*checks, name="CheckAllNumerics")

    return callbacks.RunOp(check, run_as_trigger=run_as_trigger, run_step=run_step)


def SimpleMovingAverage(tensors: Sequence[str], window_size: int) -> callbacks.PeriodicTrigger:
    """Returns a callback that records the means of scalar tensors over each window of steps, as `<name>/SMA`.

    Args:
        tensors: names of scalar tensors.
        window_size: the number of steps.
    """
    return callbacks.PeriodicTrigger(callbacks.SimpleMovingAverage(tensors, window_size), window_size)


def TensorPrinter(names: Sequence[str]) -> callbacks.ProcessTensors:
    """Returns a callback that logs the values of tensors in each step.

    Args:
        names: names of tensors.
    """
    full = [get_op_tensor_name(name)[1] for name in names]
    return callbacks.ProcessTensors(names, lambda *new: [*map(logger.info, repeat("%s: %s"), full, new)])


def averages(graph: tf.Graph) -> list[callbacks.MovingAverageSummary]:
    """Returns the callbacks of moving averages with a decay, see `add_moving_summary`.

    Args:
        graph: the graph, in which each decay has a collection.
    """
    keys = [str(key) for key in graph.collections if str(key).startswith(f"{callbacks.MOVING_SUMMARIES}/")]
    return [callbacks.MovingAverageSummary(float(key.rpartition("/")[2]), key) for key in keys]
