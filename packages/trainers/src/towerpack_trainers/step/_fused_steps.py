"""Steps that no callback looks at: several of them in one session call, where that is faster.

Between two steps a loop hands control to Python and back, wakes threads, and finds its code gone from the
processor's caches. Where nobody wants anything of a step, nothing of that is needed.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from statistics import median

import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callbacks, LoopState
from towerpack_inputsource import fast_callable

from .._errors import ConfigError
from ._step_copies import StepCopies

__all__ = ["IdleSteps"]

# Signals, errors of threads, and callbacks with a period in seconds wait for a call to end.
_LONGEST_CALL = 0.05
# Copies of a thousand ops take most of a second to make; larger steps take too long to gain anything.
_LARGEST_STEP, _LONGEST_STEP = 1000, 0.02  # ops, seconds
# Steps one by one before any are timed, calls of several likewise, and how many steps of both are compared.
_WARM_UP, _WARM_UP_CALLS, _COMPARED = 30, 2, 60
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


class Comparison:
    """Whether steps in a loop take less time than one by one.

    Attributes:
        pays: None until that is known.
    """

    def __init__(self) -> None:
        self.pays: bool | None = None
        self._singles: list[float] = []
        self._calls, self._seconds, self._steps = 0, 0.0, 0

    @property
    def has_singles(self) -> bool:
        """Whether enough steps were run one by one."""
        return len(self._singles) == _WARM_UP + _COMPARED

    def note_single(self, seconds: float) -> None:
        """Takes in how long one step took, with all that the loop did around it."""
        self._singles.append(seconds)
        if self.has_singles and self._single() > _LONGEST_STEP:
            self.pays = False

    def note_several(self, seconds: float, steps: int) -> None:
        """Takes in how long so many steps took in one call."""
        self._calls += 1
        if self._calls <= _WARM_UP_CALLS:
            return
        self._seconds += seconds
        self._steps += steps
        if self._steps >= _COMPARED:
            self.pays = self._seconds / self._steps < self._single()

    def _single(self) -> float:
        return median(self._singles[_WARM_UP:])


class IdleSteps:
    """The plain step in a loop within the graph, which ends early enough for everything else to be in time.

    Args:
        copies: copies of the plain step, counted.
    """

    def __init__(self, copies: StepCopies) -> None:
        self._comparison = Comparison()
        self._since: float | None = None
        with copies.graph.as_default(), tf.name_scope(None), tf.control_dependencies(None):
            self._limit = limit = tf.placeholder(tf.int32, [], "idle_steps_limit")
            deadline = tf.timestamp() + _LONGEST_CALL
        self._done = copies.loop(lambda done: (done < limit) & (tf.timestamp() < deadline), "idle_steps")
        self._call: Callable[..., list[int]]

    @classmethod
    def of(cls, step: tf.Operation, times: int) -> IdleSteps | None:
        """Copies a step, if its copies are sure to do the same and may be faster; else returns None.

        Not where there are GPUs: the host runs ahead of the steps there anyway, and building a loop makes
        TensorFlow take their memory before a session can say how much.

        Args:
            step: the plain step, counted.
            times: how often it is run at most; few times are over before it is known what is faster.
        """
        if times <= _WARM_UP + _COMPARED:
            return None
        if not tf.control_flow_v2_enabled() or tf.config.list_physical_devices("GPU"):
            return None
        try:
            copies = StepCopies([step])
        except ConfigError:
            return None
        if len(copies.ops) > _LARGEST_STEP or not all(map(_can_be_repeated, copies.ops)):
            return None
        return cls(copies)

    @property
    def pays(self) -> bool | None:
        """Whether it is faster than steps one by one; None until that is known."""
        return self._comparison.pays

    def __str__(self) -> str:
        return "steps that no callback looks at: several in one session call, if that is faster\n"

    def compile(self, sess: tf.Session) -> None:
        """Prepares for a session."""
        self._call = fast_callable(sess, feeds=[self._limit], fetches=[self._done])

    def advance(self, loop: LoopState, callbacks: Callbacks, count: Callable[[], int]) -> bool:
        """Runs steps that nobody looks at, before the next one that somebody does.

        Call it after every step that was run by itself, and again while it returns True.

        Args:
            loop: the counters, which are moved on.
            callbacks: who may look.
            count: tells how many steps the graph has counted.

        Returns:
            False if none was run.
        """
        if self.pays is False or not self._have_timed_singles():
            return False
        before = loop.global_step
        before_last = loop.steps_per_epoch - 2 - loop.local_step
        limit = min(callbacks.idle_steps(before), before_last, _MOST)
        if limit < _FEWEST:
            return False
        try:
            loop.global_step += self._run(int(limit))
        except tf.errors.OpError:
            # Those before the one that failed are done.
            with contextlib.suppress(tf.errors.OpError, RuntimeError):  # the session may be broken, too
                loop.global_step = count()
            raise
        finally:
            loop.local_step += loop.global_step - before
        return loop.global_step > before

    def _have_timed_singles(self) -> bool:
        if self._comparison.has_singles:
            return True
        since, self._since = self._since, time.perf_counter()
        if since is not None:
            self._comparison.note_single(self._since - since)
        return False

    def _run(self, limit: int) -> int:
        begin = time.perf_counter()
        [done] = self._call(np.int32(limit))
        if self.pays is None:
            self._comparison.note_several(time.perf_counter() - begin, int(done))
        return int(done)


def _can_be_repeated(op: tf.Operation) -> bool:
    """Whether copies of an op, in a loop or out of it, do together what it would do itself."""
    if op.type in _CONTROL_FLOW:
        return False
    return not op.op_def.is_stateful or op.type.startswith(_SHARED_STATE)
