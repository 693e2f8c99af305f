"""Fuses steps that no callback observes into one session call, if that is faster.

Between two steps, the loop passes control to Python and back, wakes threads, and finds its code evicted from
the processor's caches. If no callback needs a step's values, the loop can run several steps in one session
call.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any, ClassVar, NamedTuple, Protocol, final

import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks import StepCounter, StepPlan
from towerpack_inputsource import fast_callable

from ..towers._copies_of_step import CONTROL_FLOW, StepCopies, uses_state
from ._stacked_input import StackedInput, copies_for_loop

__all__ = ["DefaultStep", "FusedSteps", "SpeedTrial", "StepCalls", "TrainingSteps", "compile_step"]


@final
class DefaultStep:
    """The step without periodic work: by far the most frequent one, so it is counted within the same call.

    Create it before the graph is final.

    Args:
        train_op: the op that `run_step` runs.
        plan: the fetches of every step.
        counter: the step counter.

    Attributes:
        train_op: the given op.
        done: the op that makes the step and counts it.
        values: the fetches with a receiver.
        receivers: one for each element of `values`.
    """

    def __init__(self, train_op: tf.Operation, plan: StepPlan, counter: StepCounter) -> None:
        self.train_op = train_op
        received = [(fetch.fetches, fetch.receive) for fetch in plan.due if fetch.receive is not None]
        self.values = [fetches for fetches, _ in received]
        self.receivers = [receive for _, receive in received]
        wanted = tf.nest.flatten([train_op, plan.fetches])
        self.done: tf.Operation = counter.count_after(wanted)


def compile_step(sess: tf.Session, done: tf.Operation, values: Sequence[Any]) -> Callable[[], Sequence[Any]]:
    """Returns a function that runs a step and returns the fetched values.

    Args:
        sess: the session.
        done: the op of the step.
        values: the tensors to fetch with it.
    """
    if not values:
        return fast_callable(sess, [done])
    if len({id(value) for value in values}) == 1 and tf.is_tensor(values[0]):
        # A bare tensor is returned in a third of the time that a structure around it takes.
        run, count = fast_callable(sess, [done], fetches=values[:1]), len(values)
        return lambda: run() * count
    run_all = sess.make_callable([done, values])
    return lambda: run_all()[1]


@final
class StepCalls(NamedTuple):
    """The session calls that make a training's steps.

    Attributes:
        run: makes one step, or `TrainingSteps.per_call` steps; returns one value per receiver, of the last
            step.
        run_prologue: makes all of these steps except the last; None if there is only one.
        run_many: takes a limit, makes at most that many steps without observing callbacks, and returns their
            number. If single calls are faster, it returns minus the number of steps after which to call it
            again. None if fusing is never tried.
    """

    run: Callable[[], Sequence[Any]]
    run_prologue: Callable[[], Any] | None = None
    run_many: Callable[[float], int] | None = None


class TrainingSteps(Protocol):
    """The ops of the steps, made before the graph is final. `choose_steps` makes one.

    Attributes:
        default: the default step.
        per_call: the number of steps in one run.
    """

    default: DefaultStep
    per_call: int

    def compile(self, sess: tf.Session) -> StepCalls:
        """Prepares the session calls."""


# The number of warm-up steps, of warm-up calls with several steps, and of compared steps of either kind.
_WARM_UP, _WARM_UP_CALLS, _COMPARED = 30, 2, 60
# The steps of a compared time: with fewer, the call would count; with more, a busy processor.
_BLOCK = 10
# Longer steps gain nothing.
_LONGEST_STEP = 0.02  # seconds
_ABOUT_EQUAL = 1.02
# Two threads that pass small ops to each other keep two processors busy. The trial does not show that these
# are missing in the thread that makes small datapoints: those of the trial were made before.
_SIMILAR_WITH_INPUT = 1.2


@final
class SpeedTrial:
    """Compares the times of single steps with those of steps in calls of several.

    Other programs and waits for data lengthen some of the measured times. Therefore the shortest times of
    equal numbers of steps are compared. If they are about equal, the input limits both, and calls of several
    steps leave it more processor time.

    Args:
        ways: the number of ways to make several steps, which take turns; each has fewer threads than the one
            before.
        similar: a way with fewer threads is preferred if it takes up to this multiple of the shortest time.

    Attributes:
        SINGLES: the number of single steps before calls of several steps are tried.
        MOST_STEPS: the maximum number of steps in such a call during the trial.
    """

    SINGLES: ClassVar[int] = _WARM_UP + _COMPARED
    MOST_STEPS: ClassVar[int] = _BLOCK

    def __init__(self, ways: int = 1, similar: float = _ABOUT_EQUAL) -> None:
        self._similar = similar
        self._is_faster: bool | None = None
        self._singles: list[float] = []
        self._shortest = [math.inf] * ways
        self._calls = self._steps = 0

    @property
    def is_faster(self) -> bool | None:
        """Whether several steps in one call are faster; None until the comparison is complete."""
        return self._is_faster

    @property
    def next_way(self) -> int:
        """The number of the way to try next."""
        return self._calls % len(self._shortest)

    @property
    def fastest_way(self) -> int:
        """The number of the fastest way so far; of several about as fast, that with the fewest threads."""
        longest = self._similar * min(self._shortest)
        return max(way for way, seconds in enumerate(self._shortest) if seconds <= longest)

    @property
    def has_singles(self) -> bool:
        """Whether enough single steps have been timed."""
        return len(self._singles) == self.SINGLES

    def note_single(self, seconds: float) -> None:
        """Adds the time of one step, including the loop's work around it."""
        self._singles.append(seconds)
        if self.has_singles and self._single() > _LONGEST_STEP:
            self._is_faster = False

    def note_several(self, seconds: float, steps: int) -> None:
        """Adds the time of a call with several steps, in the next way."""
        way, ways = self.next_way, len(self._shortest)
        self._calls += 1
        if self._calls <= _WARM_UP_CALLS * ways or not steps:
            return
        self._steps += steps
        self._shortest[way] = min(self._shortest[way], seconds / steps)
        if self._steps >= _COMPARED * ways:
            self._is_faster = min(self._shortest) < _ABOUT_EQUAL * self._single()

    def _single(self) -> float:
        """Returns the shortest time of a step, as the mean of a block."""
        compared = self._singles[_WARM_UP:]
        return min(fmean(compared[first : first + _BLOCK]) for first in range(0, len(compared), _BLOCK))


# Signals, errors of threads, and callbacks with a period in seconds wait for the end of a call.
_LONGEST_CALL = 0.05  # seconds
# Making copies of a thousand ops takes most of a second.
_LARGEST_STEP = 1000  # ops
# With fewer steps, a call is no faster than single steps.
_FEWEST = 4
# The end of a call of steps that may wait depends on the wall clock, which may be set back meanwhile. Then
# the call ends after this many times the number of steps that fill it by the monotonic clock.
_SPARE = 4
_ASSUMED_STEP = 0.001  # seconds, until a call has been measured
# The decision may become wrong, and is therefore repeated: after this many single steps, then after ten
# times as many; after steps in calls of several, each time after ten times as many.
_SINGLES_UNTIL_TRIAL, _SEVERAL_UNTIL_TRIAL = 1_000, 10_000
# Ops that wait for data.
_WAITING = frozenset({"IteratorGetNext", "QueueDequeueManyV2", "QueueDequeueUpToV2", "QueueDequeueV2"})
# Ops with state that copies share with the step, so that they have the same effect. Random ops are excluded:
# a copy would draw the same numbers as the original. Tables are excluded, too: TensorFlow reads a table that
# the loop writes to only once, before the loop.
_SHARED_STATE = _WAITING | frozenset(
    {
        "Assert",
        "AssignAddVariableOp",
        "AssignSubVariableOp",
        "AssignVariableOp",
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
# Ops with state that is found by a name; without an explicit name, by that of the op, which a copy lacks.
_SHARED_BY_NAME = frozenset({"Stage", "Unstage"})


@final
class FusedSteps:
    """The default step, single and in a loop within the graph that ends at a limit or after a short time.

    With stacked input, the loop makes as many steps as it has taken datapoints. Steps that do not wait for
    data take about as long as those of the last call, so the limit keeps the time; reading a clock before
    each of them would take a twentieth of the time of a small network.

    Args:
        default: the default step.
        copies: copies of it.
        stacked: the input of the copies; None if each takes its datapoint.
        pools: the number of the session's thread pools to choose from.
    """

    per_call = 1

    def __init__(
        self, default: DefaultStep, copies: StepCopies, stacked: StackedInput | None, pools: int
    ) -> None:
        self.default, self._pools, self._stacks = default, pools, stacked is not None
        waiting = _WAITING | _SHARED_BY_NAME
        self._may_wait = stacked is None and any(op.type in waiting for op in copies.ops)
        with copies.graph.as_default(), tf.name_scope(None), tf.control_dependencies(None):
            self._limit = limit = tf.placeholder(tf.int32, [], "fused_steps_limit")
            if stacked is not None:
                stacked.take(_FEWEST, limit)
                loop = copies.loop(stacked.goes_on, "fused_steps", stacked.of_iteration)
                self._done = stacked.release(loop)
                return
            deadline = tf.timestamp() + _LONGEST_CALL if self._may_wait else None

        def goes_on(done: tf.Tensor) -> tf.Tensor:
            return done < limit if deadline is None else (done < limit) & (tf.timestamp() < deadline)

        self._done = copies.loop(goes_on, "fused_steps")

    @classmethod
    def of(cls, default: DefaultStep, most_steps: int, pools: int = 1) -> FusedSteps | None:
        """Copies a step if its copies have the same effect and may be faster; otherwise returns None.

        Args:
            default: the default step.
            most_steps: the length of the training; a short one ends before the comparison is complete.
            pools: the number of the session's thread pools; the fastest one runs the steps.
        """
        if most_steps <= SpeedTrial.SINGLES:
            return None
        found = copies_for_loop(default.done, _can_be_fused)
        return None if found is None else cls(default, *found, pools)

    def __str__(self) -> str:
        return "steps that no callback looks at: several in one session call, if that is faster\n"

    def compile(self, sess: tf.Session) -> StepCalls:
        """Prepares the session calls."""
        many = [
            fast_callable(
                sess,
                feeds=[self._limit],
                fetches=[self._done],
                options=tf.RunOptions(inter_op_thread_pool=pool) if pool else None,
            )
            for pool in range(self._pools)
        ]
        return StepCalls(
            compile_step(sess, self.default.done, self.default.values),
            run_many=_ManySteps(
                many,
                _SPARE if self._may_wait else 1,
                _SIMILAR_WITH_INPUT if self._stacks else _ABOUT_EQUAL,
            ),
        )


@final
class _ManySteps:
    """Runs several steps in one call, after a trial has shown that it is faster.

    Args:
        calls: ways to make the same session call; it takes a limit and returns the number of steps.
        spare: the limit, as a multiple of the number of steps that fill the longest call.
        similar: see `SpeedTrial`.
    """

    def __init__(self, calls: Sequence[Callable[..., list[Any]]], spare: int, similar: float) -> None:
        self._calls, self._spare, self._similar = calls, spare, similar
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
            pause, self._singles_until_trial = self._singles_until_trial, 10 * _SINGLES_UNTIL_TRIAL
            return -pause
        most = self._most_steps()
        if trial.is_faster is None:
            most = min(most, SpeedTrial.MOST_STEPS)
        return 0 if limit < _FEWEST else self._run(min(limit, most))

    def _begin_trial(self) -> None:
        self._trial = SpeedTrial(len(self._calls), self._similar)
        self._since: float | None = None

    def _time_single(self) -> None:
        since, self._since = self._since, time.perf_counter()
        if since is not None:
            self._seconds_per_step = self._since - since
            self._trial.note_single(self._seconds_per_step)

    def _most_steps(self) -> int:
        return max(_FEWEST, math.ceil(self._spare * _LONGEST_CALL / self._seconds_per_step))

    def _run(self, limit: float) -> int:
        trial = self._trial
        way = trial.next_way if trial.is_faster is None else trial.fastest_way
        begin = time.perf_counter()
        [done] = map(int, self._calls[way](np.int32(limit)))
        seconds = time.perf_counter() - begin
        self._seconds_per_step = seconds / max(done, 1)
        if trial.is_faster is None:
            trial.note_several(seconds, done)
            return done
        self._several_left -= done
        if self._several_left <= 0:
            self._several_until_trial *= 10
            self._several_left = self._several_until_trial
            self._begin_trial()
        return done


def _can_be_fused(ops: Sequence[tf.Operation]) -> bool:
    return len(ops) <= _LARGEST_STEP and all(map(_can_be_repeated, ops))


def _can_be_repeated(op: tf.Operation) -> bool:
    """Returns whether copies of an op, in a loop or outside, together have the effect of the op itself."""
    if op.type in CONTROL_FLOW:
        return False
    if op.type in _SHARED_BY_NAME:
        return bool(op.get_attr("shared_name"))
    # TensorFlow may move a supposedly stateless op out of the loop that changes its input.
    return not uses_state(op) or op.type in _SHARED_STATE
