"""Runs several steps as one program that XLA compiles.

The ops of a small network's step take less time than TensorFlow's executor needs to start them. A compiled
loop over the steps has none to start.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from towerpack_inputsource import fast_callable

from ..towers._copies_of_step import StepCopies, uses_state
from ..towers._tower import remove_xla_marks
from ._stacked_input import StackedInput, copies_for_loop

__all__ = ["CompiledSteps"]

_log = logging.getLogger("towerpack_trainers")

# Other ops with state are not compiled: XLA leaves out assertions, and draws other random numbers.
_STATE = ("AssignAddVariableOp", "AssignSubVariableOp", "AssignVariableOp", "ReadVariableOp", "VariableShape")
_STATE_PREFIXES = ("ResourceApply", "ResourceGather", "ResourceScatter", "ResourceSparseApply")


@final
class CompiledSteps:
    """Copies of a step in a loop that XLA compiles, over datapoints that are taken in one op before it.

    Args:
        copies: copies of the step, without its input.
        stacked: the input of the copies.
        most: the number of steps in a call. The end of the data may leave fewer.
    """

    def __init__(self, copies: StepCopies, stacked: StackedInput, most: int) -> None:
        with copies.graph.as_default(), tf.name_scope(None), tf.control_dependencies(None):
            self._limit = tf.placeholder(tf.int32, [], "compiled_steps_limit")
            count, size, *stacks = stacked.take_padded(self._limit, most)
            arguments = [count, size, *stacks]

            def steps(count: tf.Tensor, size: tf.Tensor, *stacks: tf.Tensor) -> tf.Tensor:
                return copies.loop(
                    lambda done: done < count,
                    "compiled_steps",
                    lambda number: stacked.slices(number, count, size, stacks),
                )

            self._done = tf2.function(steps, jit_compile=True, autograph=False)(*arguments)
        self._most = most

    @classmethod
    def of(cls, done: tf.Operation, most: int) -> CompiledSteps | None:
        """Copies a step; returns None if XLA would change its effect, or its input cannot be stacked.

        Args:
            done: the op of the step.
            most: the number of steps in a call.
        """
        copies, stacked = copies_for_loop(done, _can_be_compiled) or (None, None)
        if copies is None or stacked is None:
            return None
        # The last step of a call would need longer to start a compiled tower than to compute it.
        remove_xla_marks(copies.ops)
        return cls(copies, stacked, most)

    def bind(self, sess: tf.Session, otherwise: Callable[[], Any]) -> Callable[[], Any]:
        """Returns a function that makes the steps.

        Its first call compiles them, by a run without any step.

        Args:
            sess: the session.
            otherwise: makes the same steps, if XLA cannot compile them.
        """
        call = fast_callable(sess, feeds=[self._limit], fetches=[self._done])
        chosen: list[Callable[[], Any]] = []

        def run() -> None:
            if not chosen:
                chosen.append(self._choose(call, otherwise))
            chosen[0]()

        return run

    def _choose(self, call: Callable[..., Any], otherwise: Callable[[], Any]) -> Callable[[], Any]:
        try:
            call(np.int32(0))
        except tf.errors.OpError as error:
            _log.warning(
                "xla=True: XLA cannot compile the loop over the steps of a call, so TensorFlow runs it: %s",
                str(error.message).partition("\n")[0],
            )
            return otherwise
        most = np.int32(self._most)
        return lambda: call(most)


def _can_be_compiled(ops: Sequence[tf.Operation]) -> bool:
    devices = {op.device for op in ops if op.device}
    return len(devices) <= 1 and all(map(_keeps_its_effect, ops))


def _keeps_its_effect(op: tf.Operation) -> bool:
    return not uses_state(op) or op.type in _STATE or op.type.startswith(_STATE_PREFIXES)
