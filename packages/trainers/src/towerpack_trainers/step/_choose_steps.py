"""The ways to make steps, and the choice between them, before the session exists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callbacks, LoopState, StepCounter, StopTraining

from .._errors import ConfigError
from ..towers._copies_of_step import Given, StepCopies
from ..towers._devices import get_num_gpu
from ..towers._tower import LAST_STEP
from ._compiled_steps import CompiledSteps
from ._fused_steps import DefaultStep, FusedSteps, StepCalls, TrainingSteps, compile_step

__all__ = [
    "CompositeStep",
    "FixedSteps",
    "PrologueOps",
    "check_periods",
    "check_position",
    "choose_steps",
    "copies_of",
    "copy_after",
]


# Stateful random ops draw other numbers in the copies of a step before the last one, in the generator's steps
# of a round (2), and in the copy of the last step than in the step itself, which runs for fetches.
_EARLIER, _LAST = 1, 3


@final
@attrs.frozen(eq=False)
class PrologueOps:
    """The ops that run before each step, as a part of it.

    Attributes:
        ops: the ops to run, all of them in each repetition.
        times: the number of repetitions.
        wanted_by: the argument that requests them, for messages.
        given: tensors with a different value in each repetition, such as the step number of random numbers.
        values: maps the number of the repetition, from 0, to these values.
    """

    ops: Sequence[tf.Operation]
    times: int
    wanted_by: str
    given: Sequence[tf.Tensor] = ()
    values: Given | None = None


@final
class CompositeStep:
    """The default step after the prologue, both in one session call.

    At steps with additional fetches of callbacks, the prologue is a separate call. If processes exchange
    gradients, each repetition of the prologue is a separate call at every step: all exchanges must be in the
    same order.

    Args:
        default: the default step.
        prologue: the ops before it.
        by_calls: whether each repetition of the prologue is a session call.

    Raises:
        ConfigError: the prologue needs a feed, or has TensorFlow 1's reference variables.
    """

    per_call = 1

    def __init__(self, default: DefaultStep, prologue: PrologueOps, by_calls: bool = False) -> None:
        self.default = default
        self._prologue = prologue
        self._done: tf.Operation = default.done
        self._values: Sequence[Any] = default.values
        self._prologue_op: tf.Operation | None = None
        if not by_calls:
            copies = StepCopies(
                prologue.ops, prologue.given, wanted_by=prologue.wanted_by, other_numbers=_EARLIER
            )
            self._prologue_op = copies.loop(
                lambda done: done < prologue.times, "prologue_steps", prologue.values
            ).op
            own = copies_of(default, prologue.wanted_by, _LAST)
            self._done, self._values = copy_after(self._prologue_op, default, own)

    def __str__(self) -> str:
        return f"each step: {self._prologue.times} more before it, as {self._prologue.wanted_by} asks for\n"

    def compile(self, sess: tf.Session) -> StepCalls:
        """Prepares the session calls."""
        run = compile_step(sess, self._done, self._values)
        if self._prologue_op is not None:
            return StepCalls(run, run_prologue=sess.make_callable(self._prologue_op))
        once = sess.make_callable(list(self._prologue.ops))
        prologue = _repeating(once, self._prologue.times)
        return StepCalls(_following(prologue, run), run_prologue=prologue)


def copies_of(default: DefaultStep, wanted_by: str, other_numbers: int) -> StepCopies:
    """Prepares copies of the default step, with the fetches that have a receiver; see `StepCopies`."""
    # Not measured on GPUs.
    return StepCopies(
        [*_outputs(default)[1].values()],
        wanted_by=wanted_by,
        other_numbers=other_numbers,
        optimize=not get_num_gpu(),
    )


def copy_after(
    prologue: tf.Operation, default: DefaultStep, copies: StepCopies
) -> tuple[tf.Operation, Sequence[Any]]:
    """Adds a copy of the default step that begins after other steps.

    Args:
        prologue: the op of those steps.
        default: the default step.
        copies: the result of `copies_of`.

    Returns:
        The op of the step, and the fetches with a receiver.
    """
    step, outputs = _outputs(default)
    last = dict(zip(outputs, copies.after(prologue, LAST_STEP)))
    done, values = tf.nest.map_structure(lambda output: last[output.name], step)
    return done, values


def _outputs(default: DefaultStep) -> tuple[list[Any], dict[str, Any]]:
    """Returns the op and the fetches of a step, and each of them once, by name."""
    step = tf.nest.map_structure(_as_output, [default.done, default.values])
    return step, {output.name: output for output in tf.nest.flatten(step)}


def _as_output(fetch: Any) -> tf.Operation | tf.Tensor:
    return fetch if isinstance(fetch, tf.Operation) else tf.convert_to_tensor(fetch)


def _repeating(call: Callable[[], Any], times: int) -> Callable[[], None]:
    def repeat() -> None:
        for _ in range(times):
            call()

    return repeat


def _following(prologue: Callable[[], None], run: Callable[[], Sequence[Any]]) -> Callable[[], Sequence[Any]]:
    def follow() -> Sequence[Any]:
        prologue()
        return run()

    return follow


@final
class FixedSteps:
    """Makes several default steps in each session call; callbacks see the last of them.

    Args:
        default: the default step.
        per_call: the number of steps in one call.
        compiled: whether XLA compiles all of them but the last, as one program in a session call of its own.

    Raises:
        ConfigError: several steps are requested, but the step needs a feed.
    """

    def __init__(self, default: DefaultStep, per_call: int = 1, compiled: bool = False) -> None:
        self.default = default
        self.per_call = per_call
        self._done: tf.Operation = default.done
        self._values: Sequence[Any] = default.values
        self._prologue_op: tf.Operation | None = None
        self._compiled: CompiledSteps | None = None
        if per_call > 1:
            self._compiled = CompiledSteps.of(default.done, per_call - 1) if compiled else None
            self._repeat()

    def __str__(self) -> str:
        return ""

    def compile(self, sess: tf.Session) -> StepCalls:
        """Prepares the session calls."""
        if self._prologue_op is None:
            return StepCalls(compile_step(sess, self._done, self._values))
        prologue = sess.make_callable(self._prologue_op)
        if self._compiled is None:
            return StepCalls(compile_step(sess, self._done, self._values), run_prologue=prologue)
        prologue = self._compiled.bind(sess, prologue)
        run = compile_step(sess, self.default.done, self.default.values)
        return StepCalls(_following(prologue, run), run_prologue=prologue)

    def _repeat(self) -> None:
        """Puts all steps except the last into a loop, followed by the last one."""
        earlier, last = (copies_of(self.default, "steps_per_run", number) for number in (_EARLIER, _LAST))
        self._prologue_op = earlier.loop(lambda done: done < self.per_call - 1, "prologue_steps").op
        self._done, self._values = copy_after(self._prologue_op, self.default, last)


def check_periods(per_call: int, callbacks: Callbacks, steps_per_epoch: int) -> None:
    """Checks that every period ends with the last step of a session call.

    A callback that fetches a tensor at every step receives the values of every call's last step.

    Raises:
        ConfigError: a period, or the epoch, ends within a call.
    """
    if steps_per_epoch % per_call:
        raise ConfigError(
            f"steps_per_epoch={steps_per_epoch} is not a multiple of steps_per_run={per_call}, so an epoch "
            "would end within a session call. Change one of them."
        )
    for callback, every in callbacks.step_periods():
        if every.steps is not None and every.steps > 1 and every.steps % per_call:
            raise ConfigError(
                f"{callback} acts {every}, which is not a multiple of steps_per_run={per_call}, so it would "
                "be due within a session call. Change one of them."
            )


def check_position(per_call: int, loop: LoopState) -> None:
    """Checks that session calls end together with periods, from the position of a resumed training.

    Raises:
        ConfigError: a session call would end within a period.
        StopTraining: likewise, if the data ended there, within a call.
    """
    data_ended, loop.data_ended = loop.data_ended, False
    if loop.global_step % per_call or loop.starting_step % per_call:
        if data_ended:
            loop.data_ended = True
            raise StopTraining(
                f"its input ended there, within a call of steps_per_run={per_call}. With more data, continue "
                "with steps_per_run=1"
            )
        raise ConfigError(
            f"The checkpoint was written after {loop.global_step} steps, {loop.starting_step} of them in its "
            f"last epoch, which is not a multiple of steps_per_run={per_call}. Resume with a steps_per_run "
            "that divides both, or 1."
        )


def choose_steps(
    train_op: tf.Operation,
    callbacks: Callbacks,
    loop: LoopState,
    counter: StepCounter,
    *,
    steps_per_run: int | None = None,
    own_step: str | None = None,
    may_fuse: bool = True,
    prologue: PrologueOps | None = None,
    pools: int = 1,
    compiled: bool = False,
) -> TrainingSteps:
    """Chooses the number of steps in a session call, and adds the ops for it to the graph.

    Args:
        train_op: the op of one step.
        callbacks: the callbacks, set up.
        loop: the counters, with the number of epochs and of steps per epoch.
        counter: counts steps in the graph.
        steps_per_run: the number of steps in each call; None: one, or several if no callback observes them
            and that is faster.
        own_step: the name of the trainer class if it has its own `run_step`, which must be called for each
            step.
        may_fuse: False if there is another reason not to fuse steps.
        prologue: the ops that run before each step, as a part of it; None: none.
        pools: the number of the session's thread pools.
        compiled: whether XLA compiles the steps of a call as one program, where it keeps their effect.

    Raises:
        ConfigError: several steps per call are requested, but the trainer, a period or the input needs one.
    """
    per_call = steps_per_run or 1
    if per_call > 1:
        if own_step is not None:
            raise ConfigError(
                f"steps_per_run={per_call} repeats the step in the graph, but {own_step} has its own "
                "run_step(). Use the run_step() of Trainer, or steps_per_run=1."
            )
        check_periods(per_call, callbacks, loop.steps_per_epoch)
    default = DefaultStep(train_op, callbacks.plan(callbacks.every_step_fetches), counter)
    if prologue is not None:
        if per_call > 1:
            raise ConfigError(
                f"steps_per_run={per_call} repeats a step that {prologue.wanted_by} makes of several. "
                "Remove steps_per_run: such a step is already one session call."
            )
        return CompositeStep(default, prologue, by_calls=own_step is not None)
    if may_fuse and steps_per_run is None and own_step is None and not callbacks.needs_every_step:
        epochs = (loop.max_epoch or 0) - loop.starting_epoch + 1
        fused = FusedSteps.of(default, epochs * loop.steps_per_epoch, pools)
        if fused is not None:
            return fused
    return FixedSteps(default, per_call, compiled)
