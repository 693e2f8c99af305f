"""Steps that no callback observes: several of them in one session call, where that is faster.

Between two steps a loop hands control to Python and back, wakes threads, and finds its code gone from the
processor's caches. If no callback needs a step's values, the loop can run several steps in one session call.
"""

from __future__ import annotations

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
# Fewer steps in a call are no faster than by themselves; more end by the clock.
_FEWEST, _MOST = 4, 10**6
# Ops whose state the copies share with the step, so that they do what it would. Random ops are not among
# them: a copy draws the numbers of the original once more.
_SHARED_STATE = (
    "Assert",
    "Assign",
    "FIFOQueue",
    "IteratorGetNext",
    "PaddingFIFOQueue",
    "QueueDequeue",
    "QueueSize",
    "RandomShuffleQueue",
    "ReadVariable",
    "Resource",
    "Stage",
    "Unstage",
    "VarHandle",
    "VarIsInitialized",
    "VariableShape",
)
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
        except ConfigError:
            return None
        if len(copies.ops) > _LARGEST_STEP or not all(map(_can_be_repeated, copies.ops)):
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
        self._trial = SpeedTrial()
        self._since: float | None = None

    def __call__(self, limit: float) -> int | None:
        trial = self._trial
        if trial.is_faster is None and not trial.has_singles:
            self._time_single()
            return 0
        if trial.is_faster is False:
            return None
        return 0 if limit < _FEWEST else self._run(int(min(limit, _MOST)))

    def _time_single(self) -> None:
        since, self._since = self._since, time.perf_counter()
        if since is not None:
            self._trial.note_single(self._since - since)

    def _run(self, limit: int) -> int:
        begin = time.perf_counter()
        [done] = self._call(np.int32(limit))
        if self._trial.is_faster is None:
            self._trial.note_several(time.perf_counter() - begin, int(done))
        return int(done)


def _can_be_repeated(op: tf.Operation) -> bool:
    """Whether copies of an op, in a loop or out of it, do together what it would do itself."""
    if op.type in _CONTROL_FLOW:
        return False
    return not op.op_def.is_stateful or op.type.startswith(_SHARED_STATE)
