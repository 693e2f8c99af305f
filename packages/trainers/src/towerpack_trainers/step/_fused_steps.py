"""Steps that no callback observes: several of them in one session call, where that is faster.

Between two steps a loop hands control to Python and back, wakes threads, and finds its code gone from the
processor's caches. If no callback needs a step's values, the loop can run several steps in one session call.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, final

import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_inputsource import fast_callable

from .._errors import ConfigError
from ._copies_of_step import StepCopies
from ._default_step import DefaultStep, compile_step
from ._speed_trial import SpeedTrial
from ._step_calls import StepCalls

__all__ = ["FusedSteps"]

# Signals, errors of threads, and callbacks with a period in seconds wait for a call to end.
_LONGEST_CALL = 0.05  # seconds
# Copies of a thousand ops take most of a second to make.
_LARGEST_STEP = 1000  # ops
# Fewer steps in a call are no faster than by themselves.
_FEWEST = 4
# A call ends by the clock of the machine, which may be set back meanwhile. Then it ends after this many times
# the steps that, by the monotonic clock, fill it.
_SPARE = 4
_ASSUMED_STEP = 0.001  # seconds, until a call has been measured
# The choice is made in the noise of a moment, and so made again: after so many steps, then ten times as many.
_SINGLES_UNTIL_TRIAL, _SEVERAL_UNTIL_TRIAL = 1_000, 10_000
# Ops whose state the copies share with the step, so that they do what it would. Random ops are not among
# them: a copy draws the numbers of the original once more. Nor are tables: TensorFlow reads one that the loop
# writes into once, before it.
_SHARED_STATE = frozenset(
    {
        "Assert",
        "AssignAddVariableOp",
        "AssignSubVariableOp",
        "AssignVariableOp",
        "IteratorGetNext",
        "QueueDequeueManyV2",
        "QueueDequeueUpToV2",
        "QueueDequeueV2",
        "QueueSizeV2",
        "ReadVariableOp",
        "ResourceGather",
        "ResourceGatherNd",
        "ResourceStridedSliceAssign",
        "VarIsInitializedOp",
        "VariableShape",
        *(f"ResourceScatter{way}" for way in ("Add", "Div", "Max", "Min", "Mul", "Sub", "Update")),
        *(f"ResourceScatterNd{way}" for way in ("Add", "Max", "Min", "Sub", "Update")),
        *(
            f"Resource{sparse}Apply{rule}"
            for sparse in ("", "Sparse")
            for rule in (
                *("Adadelta", "Adagrad", "AdagradDA", "AdagradV2", "Adam", "AdaMax", "AdamWithAmsgrad"),
                *("AddSign", "CenteredRMSProp", "Ftrl", "FtrlV2", "GradientDescent", "KerasMomentum"),
                *("Momentum", "PowerSign", "ProximalAdagrad", "ProximalGradientDescent", "RMSProp"),
            )
        ),
    }
)
# Ops whose state is found by a name; without one of their own, by that of the op, which a copy has not.
_SHARED_BY_NAME = frozenset({"Stage", "Unstage"})
_CONTROL_FLOW = {"Enter", "Exit", "LoopCond", "Merge", "NextIteration", "Switch"}


@final
class FusedSteps:
    """The default step by itself, and in a loop within the graph that ends at a limit or after a short time.

    Args:
        default: the default step.
        copies: copies of it.
    """

    per_call = 1

    def __init__(self, default: DefaultStep, copies: StepCopies) -> None:
        self.default = default
        with copies.graph.as_default(), tf.name_scope(None), tf.control_dependencies(None):
            self._limit = limit = tf.placeholder(tf.int32, [], "fused_steps_limit")
            deadline = tf.timestamp() + _LONGEST_CALL
        self._done = copies.loop(lambda done: (done < limit) & (tf.timestamp() < deadline), "fused_steps")

    @classmethod
    def of(cls, default: DefaultStep, most_steps: int) -> FusedSteps | None:
        """Copies a step, if its copies are sure to do the same and may be faster; else returns None.

        Not where there are GPUs: the host runs ahead of the steps there anyway, and building a loop makes
        TensorFlow take their memory before a session can say how much.

        Args:
            default: the default step.
            most_steps: the length of the training; a short one is over before it is known what is faster.
        """
        if most_steps <= SpeedTrial.SINGLES:
            return None
        if not tf.control_flow_v2_enabled() or tf.config.list_physical_devices("GPU"):
            return None
        try:
            copies = StepCopies([default.done])
            if len(copies.ops) > _LARGEST_STEP or not all(map(_can_be_repeated, copies.ops)):
                return None
            copies.prepare()
        except ConfigError:
            return None
        return cls(default, copies)

    def __str__(self) -> str:
        return "steps that no callback looks at: several in one session call, if that is faster\n"

    def compile(self, sess: tf.Session) -> StepCalls:
        """Prepares the session calls."""
        many = fast_callable(sess, feeds=[self._limit], fetches=[self._done])
        return StepCalls(
            compile_step(sess, self.default.done, self.default.values), run_many=_ManySteps(many)
        )


@final
class _ManySteps:
    """Runs several steps in one call, once a trial has shown that to be faster.

    Args:
        call: the session call; it takes a limit and returns the number of steps.
    """

    def __init__(self, call: Callable[..., list[Any]]) -> None:
        self._call = call
        self._seconds_per_step = _ASSUMED_STEP
        self._singles_until_trial = _SINGLES_UNTIL_TRIAL
        self._several_until_trial = self._several_left = _SEVERAL_UNTIL_TRIAL
        self._begin_trial()

    def __call__(self, limit: float) -> int:
        trial = self._trial
        if trial.is_faster is None and not trial.has_singles:
            self._time_single()
            return 0
        if trial.is_faster is False:
            self._begin_trial()
            pause, self._singles_until_trial = self._singles_until_trial, 10 * self._singles_until_trial
            return -pause
        return 0 if limit < _FEWEST else self._run(min(limit, self._most_steps()))

    def _begin_trial(self) -> None:
        self._trial = SpeedTrial()
        self._since: float | None = None

    def _time_single(self) -> None:
        since, self._since = self._since, time.perf_counter()
        if since is not None:
            self._trial.note_single(self._since - since)

    def _most_steps(self) -> int:
        return max(_FEWEST, math.ceil(_SPARE * _LONGEST_CALL / self._seconds_per_step))

    def _run(self, limit: float) -> int:
        begin = time.perf_counter()
        [done] = map(int, self._call(np.int32(limit)))
        seconds = time.perf_counter() - begin
        self._seconds_per_step = seconds / max(done, 1)
        if self._trial.is_faster is None:
            self._trial.note_several(seconds, done)
            return done
        self._several_left -= done
        if self._several_left <= 0:
            self._several_until_trial *= 10
            self._several_left = self._several_until_trial
            self._begin_trial()
        return done


def _can_be_repeated(op: tf.Operation) -> bool:
    """Whether copies of an op, in a loop or out of it, do together what it would do itself."""
    if op.type in _CONTROL_FLOW:
        return False
    if op.type in _SHARED_BY_NAME:
        return bool(op.get_attr("shared_name"))
    # TensorFlow may take an op that it calls stateless out of the loop that changes what the op reads.
    has_state = op.op_def.is_stateful or any(tensor.dtype == tf.resource for tensor in op.inputs)
    return not has_state or op.type in _SHARED_STATE
