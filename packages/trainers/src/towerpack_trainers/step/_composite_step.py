"""A training step preceded by other steps: critic steps before that of the generator, as one step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

from ..towers._ended_data import LAST_STEP
from ._copies_of_step import Given, StepCopies
from ._default_step import DefaultStep, compile_step
from ._fused_steps import StepCalls

__all__ = ["CompositeStep", "PrologueOps", "copies_of", "copy_after"]


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
        self._prologue, self._by_calls = prologue, by_calls
        self._done: tf.Operation = default.done
        self._values: Sequence[Any] = default.values
        self._prologue_op: tf.Operation | None = None
        if not by_calls:
            copies = StepCopies(prologue.ops, prologue.given, wanted_by=prologue.wanted_by, other_numbers=1)
            self._prologue_op = copies.loop(
                lambda done: done < prologue.times, "prologue_steps", prologue.values
            ).op
            own = copies_of(default, prologue.wanted_by)
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


def copies_of(default: DefaultStep, wanted_by: str) -> StepCopies:
    """Prepares copies of the default step, with the fetches that have a receiver."""
    return StepCopies([*_outputs(default)[1].values()], wanted_by=wanted_by)


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
