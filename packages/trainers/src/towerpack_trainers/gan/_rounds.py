"""A round of adversarial training: steps of the discriminator, then steps of the generator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf

from towerpack_callbacks import find_ancestors

from ..step import Given, PrologueOps, StepCopies
from ..towers._builder import Builder
from ._gan_objectives import DISCRIMINATOR, GENERATOR

__all__ = ["Rounds"]

# Random numbers depend on the step number. This distance between the step numbers of a round's parts prevents
# collisions with those of any other round.
_PART_BITS = 40
_ASSIGNS = frozenset({"AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"})


@final
class Rounds:
    """The ops of rounds with more than one step of each network.

    The towers are built once. The discriminator's last step is that of the towers themselves, so that
    callbacks see it; its earlier steps, and the generator's, are copies. The generator's steps use the last
    batch of the discriminator and its new weights; each draws new noise.

    Statistics of batch normalisation are updated in the steps of their network: the update ops are
    removed from their collection, and run with these steps.

    Args:
        builder: the builder with the towers and the updates of the two objectives.
        d_steps: the number of discriminator steps in a round, each with a new batch.
        g_steps: the number of generator steps.
        generator_scope: the variable scope of the generator.

    Attributes:
        train_op: the last step of the discriminator, and those of the generator.
    """

    def __init__(self, builder: Builder, d_steps: int, g_steps: int, generator_scope: str) -> None:
        self._builder, self._d_steps, self._g_steps = builder, d_steps, g_steps
        self._of_generator, self._of_discriminator = _divide_statistics(generator_scope)
        last = builder.updates[DISCRIMINATOR]
        self._last: tf.Operation = tf.group(last, *self._of_discriminator, name="discriminator_step")
        with tf.control_dependencies([self._last]):
            self.train_op: tf.Operation = tf.no_op(name="round")

    def complete(self) -> PrologueOps | None:
        """Adds the generator's steps to `train_op`; returns the discriminator's steps before its last one.

        Call it after the callbacks are set up: their additions to the updates are copied with the updates.
        """
        batch = find_ancestors(tensor for tower in self._builder.towers for tensor in tower.inputs.values())
        ops = [self._builder.updates[GENERATOR], *self._of_generator]
        numbers = self._builder.steps
        copies = StepCopies(ops, numbers, batch, "g_steps", other_numbers=2)

        def given(step: tf.Tensor | int) -> list[tf.Tensor]:
            return _numbers_of_part(numbers, self._d_steps + step)

        # There is no public way to add a control dependency on an op that was made later.
        self.train_op._add_control_inputs(self._repeat(copies, given))
        if self._d_steps == 1:
            return None

        def own_numbers(step: tf.Tensor | int) -> list[tf.Tensor]:
            return _numbers_of_part(numbers, step + 1)

        return PrologueOps([self._last], self._d_steps - 1, "d_steps", numbers, own_numbers)

    def _repeat(self, copies: StepCopies, given: Given) -> list[tf.Operation]:
        if self._g_steps == 1:
            return copies.after(self._last, "generator_step", given)
        steps = copies.loop(lambda done: done < self._g_steps, "generator_steps", given, after=[self._last])
        return [steps.op]


def _numbers_of_part(numbers: Sequence[tf.Tensor], part: Any) -> list[tf.Tensor]:
    """Returns the step numbers of a part of the round, one for each tower."""
    shift = tf.bitwise.left_shift(tf.cast(part, tf.int64), tf.constant(_PART_BITS, tf.int64))
    return [number + tf.cast(shift, number.dtype) for number in numbers]


def _divide_statistics(scope: str) -> tuple[list[tf.Operation], list[tf.Operation]]:
    """Removes the update ops from their collection; returns those of a scope's variables, and the others."""
    collection = tf.get_collection_ref(tf.GraphKeys.UPDATE_OPS)
    ops = [update if isinstance(update, tf.Operation) else update.op for update in collection]
    del collection[:]
    inside: list[tf.Operation] = []
    others: list[tf.Operation] = []
    for op in ops:
        names = _assigned(op)
        is_inside = bool(names) and all(name.startswith(f"{scope}/") for name in names)
        (inside if is_inside else others).append(op)
    return inside, others


def _assigned(op: tf.Operation) -> list[str]:
    """Returns the names of the variables that an op assigns, directly or through grouped ops."""
    if op.type in _ASSIGNS:
        return [op.inputs[0].op.name]
    if op.type not in {"NoOp", "Identity"}:
        return []
    before = [*op.control_inputs, *(tensor.op for tensor in op.inputs)]
    return [name for each in before for name in _assigned(each)]
