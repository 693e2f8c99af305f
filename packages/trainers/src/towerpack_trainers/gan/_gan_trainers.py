"""Trainers of generative adversarial networks. One step is a round of both networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf

from towerpack_callbacks import find_ancestors
from towerpack_layers import BatchNorm, argscope

from .._argument_checks import at_least
from .._errors import ConfigError
from ..base._tower_trainer import BuilderTrainer
from ..config import TrainConfig
from ..replicate import choose_builder
from ..session._process_strategy import ProcessStrategy
from ..step._choose_steps import PrologueOps
from ..towers._builder import Builder, SingleDeviceBuilder
from ..towers._copies_of_step import Given, StepCopies
from ..towers._devices import choose_devices
from ..towers._objective import Pairs
from ..towers._tower import declare_cost
from ._gan_model import DISCRIMINATOR, GENERATOR, as_objectives, gan_model

__all__ = ["GANTrainer", "MultiGPUGANTrainer", "Rounds", "SeparateGANTrainer"]


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


class _RoundTrainer(BuilderTrainer):
    """Trains both networks in each step, which is one round."""

    def __init__(
        self, config: TrainConfig, d_steps: int, g_steps: int, processes: ProcessStrategy | None = None
    ) -> None:
        name = type(self).__name__
        self._d_steps, self._g_steps = at_least(name, "d_steps", d_steps), at_least(name, "g_steps", g_steps)
        super().__init__(config, processes=processes)

    def _tower_function(self) -> Callable[..., Any]:
        return as_objectives(self)

    def _build_train_op(self) -> tf.Operation:
        self.builder = self._make_builder()
        joint = self.builder.build(self.tower_func, self.source.get_input_tensors)
        is_joint = self._d_steps == self._g_steps == 1
        # In other rounds, callbacks see a step of the discriminator, which need not compute the other cost.
        for number in (GENERATOR, DISCRIMINATOR) if is_joint else (DISCRIMINATOR,):
            declare_cost(self.builder.towers[0].output[number].cost)
        if is_joint:
            return joint
        if not self.source.feed_free:
            raise ConfigError(
                f"{type(self).__name__}(d_steps={self._d_steps}, g_steps={self._g_steps}) takes several "
                f"batches in a step, but {type(self.source).__name__} feeds one. Use QueueInput or another "
                "source without feeding; a DataFlow given as dataflow= gets one."
            )
        rounds = Rounds(self.builder, self._d_steps, self._g_steps, gan_model(self).generator_scope)
        self._compose_step(self._d_steps, rounds.complete)
        return rounds.train_op


@final
class GANTrainer(_RoundTrainer):
    """Trains a generator and a discriminator on one device, in rounds. One training step is one round.

    In a round, the discriminator makes `d_steps` steps, each with a new batch; then the generator makes
    `g_steps` steps, with the discriminator's new weights, the last batch of the discriminator, and new
    noise. If both numbers are 1, both steps use one forward pass, as in Tensorpack: their gradients use the
    weights from before the round.

    A round is one session call, except when a callback fetches a tensor: then the discriminator's earlier
    steps are a separate call. Callbacks see the discriminator's last step. The batch statistics of each
    network are updated in its own steps.

    Args:
        config: the training; its model is a `GANModelDesc`. By default, an epoch is one pass of the data,
            `len(flow) // d_steps` rounds. `TrainConfig(optimizer=…)` replaces both optimizers.
        d_steps: the number of discriminator steps in a round.
        g_steps: the number of generator steps in a round.
        processes: the strategy for training together with other processes, such as
            `distributed.SynchronousProcesses`. Each of the discriminator's steps is then a session call.

    Raises:
        ConfigError: the configuration does not suit this trainer.
        ModelError: a variable is in neither network's scope, or in both; or the costs are not scalars.

    Example:
        ```python
        GANTrainer(TrainConfig(model=Digits(), dataflow=flow, max_epoch=50), d_steps=5).train()
        ```
    """

    def __init__(
        self,
        config: TrainConfig,
        d_steps: int = 1,
        g_steps: int = 1,
        *,
        processes: ProcessStrategy | None = None,
    ) -> None:
        super().__init__(config, d_steps, g_steps, processes)

    def _make_builder(self) -> Builder:
        exchange = self.processes.gradient_exchange
        if exchange is not None and self._d_steps == self._g_steps == 1:
            exchange = _InOrder(exchange)
        return SingleDeviceBuilder(self.processes.local_seed(self.seed), exchange)


@final
class MultiGPUGANTrainer(_RoundTrainer):
    """Trains a generator and a discriminator synchronously on several devices, in rounds; see `GANTrainer`.

    Every tower takes its own batches from the input, `d_steps` in a round; gradients are averaged.

    Args:
        config: as for `GANTrainer`.
        devices: devices such as "/gpu:0", or their number; see `SyncMultiGPUTrainer`.
        gpus: the indices of GPUs, or their number, instead of `devices`. Without both, all GPUs of this host.
        d_steps: the number of discriminator steps in a round.
        g_steps: the number of generator steps in a round.

    Raises:
        ConfigError, ModelError: see `GANTrainer`; or a device does not exist.

    Example:
        ```python
        MultiGPUGANTrainer(TrainConfig(model=Digits(), dataflow=flow, max_epoch=50), gpus=2).train()
        ```
    """

    def __init__(
        self,
        config: TrainConfig,
        devices: int | Sequence[str] | None = None,
        gpus: int | Sequence[int] | None = None,
        *,
        d_steps: int = 1,
        g_steps: int = 1,
    ) -> None:
        self.devices = choose_devices(devices, gpus)
        super().__init__(config, d_steps, g_steps)

    def _make_builder(self) -> Builder:
        return choose_builder(self.devices, self.seed)


@final
class _InOrder:
    """Exchanges gradients with other processes, one objective after the other.

    All processes must make their exchanges in the same order, and one op trains both networks.
    """

    def __init__(self, exchange: Any) -> None:
        self._exchange = exchange
        self.sum = getattr(exchange, "sum", None)
        self._before: list[tf.Operation] = []

    def __call__(self, pairs: Pairs) -> Pairs:
        with tf.control_dependencies(self._before):
            averaged: Pairs = self._exchange(pairs)
        self._before = [gradient.op for gradient, _ in averaged]
        return averaged


@final
class SeparateGANTrainer(BuilderTrainer):
    """Trains discriminator and generator in turn, each step with a new batch.

    An epoch counts turns. The discriminator makes a step in each `d_period`-th turn, then the generator makes
    one in each `g_period`-th. As in Tensorpack, `global_step` counts the steps of both, so it advances by
    two in a turn with both; periods in steps are due in the turn that reaches them. `GANTrainer` is simpler,
    suits most trainings, and makes a round in one session call.

    Batch normalisation updates its statistics within the forward passes (`ema_update="internal"`), so the
    statistics of both networks change in each step.

    Args:
        config: the training; its model is a `GANModelDesc`.
        d_period: the period of the discriminator's steps.
        g_period: the period of the generator's steps. At least one of the two must be 1.

    Raises:
        ConfigError: neither period is 1, or the configuration does not suit this trainer.
        ModelError: see `GANTrainer`.

    Example:
        ```python
        SeparateGANTrainer(TrainConfig(model=Digits(), dataflow=flow, max_epoch=50), g_period=5).train()
        ```
    """

    def __init__(self, config: TrainConfig, *, d_period: int = 1, g_period: int = 1) -> None:
        name = type(self).__name__
        self._d_period = at_least(name, "d_period", d_period)
        self._g_period = at_least(name, "g_period", g_period)
        if min(self._d_period, self._g_period) != 1:
            raise ConfigError(
                f"{name}(d_period={d_period}, g_period={g_period}): one of them must be 1; otherwise some "
                "turns would train nothing. Use 1 for the network that trains more often."
            )
        super().__init__(config)

    def _tower_function(self) -> Callable[..., Any]:
        build = as_objectives(self)

        def build_with_own_statistics(*inputs: tf.Tensor) -> Any:
            # Update ops, run with each network's steps, would need the forward pass of the other one.
            with argscope(BatchNorm, ema_update="internal"):
                return build(*inputs)

        return build_with_own_statistics

    def _build_train_op(self) -> tf.Operation:
        self.builder = self._make_builder()
        return self.builder.build(self.tower_func, self.source.get_input_tensors)

    def run_step(self) -> None:
        """Runs the steps of one turn."""
        assert self.builder is not None
        # Not by `global_step`, which skips multiples of a period.
        turn = (self.epoch_num - 1) * self.loop.steps_per_epoch + self.local_step
        if turn % self._d_period == 0:
            self.hooked_sess.run(self.builder.updates[DISCRIMINATOR])
        if turn % self._g_period == 0:
            self.hooked_sess.run(self.builder.updates[GENERATOR])
