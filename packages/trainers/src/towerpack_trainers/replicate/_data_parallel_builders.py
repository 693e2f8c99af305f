"""Builders of one replica per device: shared or separate variables, updated together or independently."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, final

import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback

from .._argument_checks import make_optimizer
from .._errors import ConfigError
from ..optimize._optimizers import map_values
from ..towers._builder import Builder, Exchange, TakeInputs
from ..towers._devices import check_devices, note_devices
from ..towers._objective import MakeOptimizer, Pairs
from ..towers._tower import TowerFunc
from ._allreduce import all_reduce, average_gradients, choose_mode
from ._tower_copies import Copies, Originals, independent_optimizer

__all__ = [
    "AsyncMultiGPUBuilder",
    "DataParallelBuilder",
    "KeepReplicasEqual",
    "LeastLoaded",
    "SharedVariables",
    "SyncMultiGPUParameterServerBuilder",
    "SyncMultiGPUReplicatedBuilder",
]


class DataParallelBuilder(Builder):
    """Adds one replica of a model per device to the current graph, and the ops that train it.

    Every tower takes its own inputs; no batch is split. So a step trains on one batch for each device.

    Args:
        devices: the device of each tower, such as "/gpu:0"; "/cpu:1" and so on are virtual CPU devices, which
            the session options must include (`default_session_config(devices)` does that).
        seed: makes dropout masks depend only on seed, step, tower and layer. None: they differ in each run.
        exchange: see `Builder`.

    Raises:
        ConfigError: a device is invalid, does not exist, or is named twice.

    Example:
        ```python
        builder = SyncMultiGPUReplicatedBuilder(["/gpu:0", "/gpu:1"])
        train_op = builder.build(cost_function, source.get_input_tensors, tf.train.AdamOptimizer())
        with tf.train.MonitoredTrainingSession(hooks=[*source.hooks(), *builder.hooks()]) as session:
            while not session.should_stop():
                session.run(train_op)
        ```
    """

    def __init__(
        self, devices: Sequence[str], seed: int | None = None, exchange: Exchange | None = None
    ) -> None:
        self.devices = check_devices(devices)
        super().__init__(len(self.devices), seed, exchange)

    def build(
        self,
        cost_function: TowerFunc | Callable[..., Any],
        take_inputs: TakeInputs,
        optimizer: tf.train.Optimizer | MakeOptimizer | None = None,
    ) -> tf.Operation:
        """Builds the towers, their gradients and the updates; see `Builder.build`."""
        # Before the towers: random initial values depend on the number of ops before them.
        made = None if optimizer is None else make_optimizer(optimizer)
        return super().build(cost_function, take_inputs, made)

    def _begin(self, function: TowerFunc | Callable[..., Any]) -> TowerFunc:
        begun = super()._begin(function)
        note_devices(self.devices)
        return begun

    def _place(self, index: int) -> AbstractContextManager[Any]:
        return tf.device(self.devices[index])  # type: ignore[no-any-return]


@final
class AsyncMultiGPUBuilder(DataParallelBuilder):
    """Shared variables; each tower applies its gradients as soon as it has computed them.

    After Recht et al., "Hogwild!" (2011), arXiv:1106.5730. A tower may use variables that others update
    meanwhile, so runs are not reproducible. One step of the loop makes one update for each tower. If two
    towers update a variable at the same moment, a part of one update can get lost, unless the optimizer has
    `use_locking=True`.

    Args:
        devices: the device of each tower.
        variable_devices: the devices of the variables and their updates; see
            `SyncMultiGPUParameterServerBuilder`.
        scale_gradient: divide gradients by the number of towers, so that the combined updates of one step are
            about that of the average, and learning rates can be kept.
        seed: see `DataParallelBuilder`.

    Example:
        >>> AsyncMultiGPUBuilder(["/cpu:0", "/cpu:1"]).devices
        ['/cpu:0', '/cpu:1']
    """

    def __init__(
        self,
        devices: Sequence[str],
        variable_devices: Sequence[str] = ("/cpu:0",),
        scale_gradient: bool = True,
        seed: int | None = None,
    ) -> None:
        super().__init__(devices, seed)
        self._variables = SharedVariables(variable_devices)
        self._divisor = len(self.devices) if scale_gradient else 1

    def _place(self, index: int) -> AbstractContextManager[Any]:
        return tf.device(self._variables.beside(self.devices[index]))  # type: ignore[no-any-return]

    def _combine(self, gradients: Sequence[Pairs]) -> Sequence[Pairs]:
        return gradients

    def _scale(self, pairs: Pairs) -> Pairs:
        if self._divisor == 1:
            return pairs
        return [
            (map_values(gradient, lambda values: values / self._divisor), variable)
            for gradient, variable in pairs
        ]

    def _name_update(self, index: int, name: str) -> str:
        return name if len(self.devices) == 1 else f"{name}_of_tower"


_VARIABLE_OPS = {"VarHandleOp", "VariableV2", "Variable"}


@final
class LeastLoaded:
    """Chooses the device with the fewest bytes so far; the first one if there are several.

    Args:
        devices: names of devices.

    Raises:
        ConfigError: the list is empty.

    Example:
        >>> from towerpack_trainers.replicate import LeastLoaded
        >>> place = LeastLoaded(["/gpu:0", "/gpu:1"])
        >>> [place(size) for size in (100, 30, 40, 50)]
        ['/gpu:0', '/gpu:1', '/gpu:1', '/gpu:1']
    """

    def __init__(self, devices: Sequence[str]) -> None:
        if not devices:
            raise ConfigError("LeastLoaded received no devices; expected at least one.")
        self.load = dict.fromkeys(devices, 0)

    def __call__(self, size: int) -> str:
        """Returns the device for a variable of `size` bytes, and adds them to its total."""
        device = min(self.load, key=self.load.__getitem__)
        # Empty variables count as well, so that many of them do not all go to one device.
        self.load[device] += max(size, 1)
        return device


@final
class SharedVariables:
    """Places variables on the given devices, and all other ops on the tower's own device.

    Args:
        devices: the devices of variables. With several, each variable goes to the one with the fewest bytes.
    """

    def __init__(self, devices: Sequence[str]) -> None:
        self._place = LeastLoaded(devices)

    def beside(self, device: str) -> Callable[[tf.Operation], str]:
        """Returns the device function, for `tf.device`, of the tower on `device`."""

        def choose(op: tf.Operation) -> str:
            if op.device:  # the model's own choice
                return str(op.device)
            return self._place(_bytes(op)) if op.type in _VARIABLE_OPS else device

        return choose


def _bytes(variable_op: tf.Operation) -> int:
    elements = tf.TensorShape(variable_op.get_attr("shape")).num_elements() or 0
    return elements * int(tf.as_dtype(variable_op.get_attr("dtype")).size)


@final
class SyncMultiGPUParameterServerBuilder(DataParallelBuilder):
    """Shared variables, averaged gradients, one update per step.

    One step equals that of one tower with the combined batch of all towers, if the cost is a mean over
    examples and does not depend on the batch otherwise.

    Args:
        devices: the device of each tower.
        variable_devices: the devices on which variables are stored, averaged and updated. With several, each
            variable goes to the device with the fewest bytes of variables so far.
        seed: see `DataParallelBuilder`.
        exchange: takes the towers' averaged gradients and the variables of one objective, and returns as many
            pairs: `processes.gradient_exchange` averages over processes with several towers each.

    Example:
        >>> SyncMultiGPUParameterServerBuilder(["/cpu:0", "/cpu:1"], variable_devices=["/cpu:0"]).devices
        ['/cpu:0', '/cpu:1']
    """

    def __init__(
        self,
        devices: Sequence[str],
        variable_devices: Sequence[str] = ("/cpu:0",),
        seed: int | None = None,
        exchange: Exchange | None = None,
    ) -> None:
        super().__init__(devices, seed, exchange)
        self._variables = SharedVariables(variable_devices)

    def _place(self, index: int) -> AbstractContextManager[Any]:
        return tf.device(self._variables.beside(self.devices[index]))  # type: ignore[no-any-return]

    def _combine(self, gradients: Sequence[Pairs]) -> Sequence[Pairs]:
        averages = average_gradients(gradients)
        return [averages if self._exchange is None else self._exchange(averages)]


class _Replicas(Protocol):
    """The ops of a `SyncMultiGPUReplicatedBuilder` that make its replicas equal."""

    copy_variables: tf.Operation | None
    copy_statistics: tf.Operation | None


@final
class KeepReplicasEqual(Callback):
    """Copies the first tower's variables to the others: all before training, statistics periodically.

    Statistics are copied after each epoch and for each checkpoint. In a resumed run, the replicas begin as
    copies of the saved one; therefore it continues exactly like the original run.

    Args:
        builder: the builder with the towers.

    Example:
        ```python
        builder = SyncMultiGPUReplicatedBuilder(["/gpu:0", "/gpu:1"])
        train_op = builder.build(cost_function, source.get_input_tensors, tf.train.AdamOptimizer())
        callbacks = [KeepReplicasEqual(builder), ModelSaver()]
        ```
    """

    chief_only = False

    def __init__(self, builder: _Replicas) -> None:
        self._builder = builder
        self._equal_at: int | None = None
        self._runs = False

    def _before_train(self) -> None:
        self._runs = True
        if self._builder.copy_variables is not None:
            self.trainer.sess.run(self._builder.copy_variables)

    def _trigger_epoch(self) -> None:
        statistics = self._builder.copy_statistics
        if statistics is not None and self._equal_at != self.global_step:
            self.trainer.sess.run(statistics)
            self._equal_at = self.global_step

    def _after_train(self) -> None:
        self._runs = False

    def state_dict(self) -> dict[str, Any]:
        """Returns an empty state, and makes the replicas equal, as they are in a run resumed from here.

        A callback has no other hook before a checkpoint, which may also be written between two triggers.
        """
        if self._runs:
            self._trigger_epoch()
        return {}


@final
class SyncMultiGPUReplicatedBuilder(DataParallelBuilder):
    """A copy of all variables on each device; averaged gradients; the same update on each.

    The results equal those of `SyncMultiGPUParameterServerBuilder`. Only gradients are sent between devices,
    so it is faster if the connections between devices are slow. The first tower's variables have the same
    names as in a model without replication; only they are global variables, which are saved and restored.
    Those of the others are local, in scopes "tower1", "tower2" and so on; `hooks()` copies the first tower's
    values to them when a session begins.

    Args:
        devices: the device of each tower.
        mode: the averaging mode. "nccl": with NCCL, between GPUs. "hierarchical": on the devices,
            within two groups and then between them. "cpu": on the CPU. None: "nccl" between GPUs, else "cpu".
        seed: see `DataParallelBuilder`.

    Raises:
        ConfigError: there is no such mode, or the devices do not support it.

    Attributes:
        copy_variables: the op that copies all variables of the first tower to the others; None
            before the towers are built.
        copy_statistics: the op that copies the model's variables without gradients, such as moving averages;
            None without such variables.

    Example:
        >>> SyncMultiGPUReplicatedBuilder(["/cpu:0", "/cpu:1"], mode="hierarchical").devices
        ['/cpu:0', '/cpu:1']
    """

    _own_variables = True

    def __init__(self, devices: Sequence[str], mode: str | None = None, seed: int | None = None) -> None:
        super().__init__(devices, seed)
        self.mode = choose_mode(mode, self.devices)
        self.copy_variables: tf.Operation | None = None
        self.copy_statistics: tf.Operation | None = None
        self._model, self._state = Originals(), Originals()
        self._copies = [Copies(f"tower{index}") for index in range(1, len(self.devices))]

    def build(
        self,
        cost_function: TowerFunc | Callable[..., Any],
        take_inputs: TakeInputs,
        optimizer: tf.train.Optimizer | MakeOptimizer | None = None,
    ) -> tf.Operation:
        """Builds the towers, their gradients and the updates; see `Builder.build`."""
        train_op = super().build(cost_function, take_inputs, optimizer)
        self._add_copying()
        return train_op

    def call_for_each_tower(
        self, function: TowerFunc | Callable[..., Any], take_inputs: TakeInputs = tuple
    ) -> list[Any]:
        """Calls a tower function for each tower; see `Builder.call_for_each_tower`.

        `hooks()` makes the towers' variables equal, as after `build`; the updates must be equal too, such as
        averages of all towers' gradients.
        """
        outputs = super().call_for_each_tower(function, take_inputs)
        self._add_copying()
        return outputs

    def hooks(self) -> list[tf.train.SessionRunHook]:
        """Returns the hook that makes the copies equal after variables are initialised or restored."""
        return [] if self.copy_variables is None else [_CopyAtStart(self.copy_variables)]

    def callbacks(self) -> list[Callback]:
        """Returns the callback that keeps the copies equal under a trainer."""
        return [KeepReplicasEqual(self)]

    def _combine(self, gradients: Sequence[Pairs]) -> Sequence[Pairs]:
        rows = [[gradient for gradient, _ in pairs] for pairs in gradients]
        averages = all_reduce(rows, self.devices, self.mode)
        return [
            [(gradient, variable) for gradient, (_, variable) in zip(row, pairs)]
            for row, pairs in zip(averages, gradients)
        ]

    def _add_copying(self) -> None:
        trained = {id(variable) for variable in self.towers[0].trainable_variables}
        model = {id(variable) for variable in self._model.variables}
        values = {}
        everything, statistics = [], []
        with tf.name_scope("copy_variables"):
            for original, mine in (pair for copies in self._copies for pair in copies.pairs):
                if id(original) not in values:
                    values[id(original)] = original.value()
                everything.append(mine.assign(values[id(original)], read_value=False))
                if id(original) in model and id(original) not in trained:
                    statistics.append(everything[-1])
        if everything:
            self.copy_variables = tf.group(*everything, name="copy_variables")
        if statistics:
            self.copy_statistics = tf.group(*statistics, name="copy_statistics")

    def _optimizers(self, first: list[tf.train.Optimizer]) -> list[list[tf.train.Optimizer]]:
        return [first, *([independent_optimizer(optimizer) for optimizer in first] for _ in self._copies)]

    def _making_variables(self, index: int) -> AbstractContextManager[Any]:
        return self._copies[index - 1].of_model(self._model) if index else self._model.recording()

    def _making_state(self, index: int) -> AbstractContextManager[Any]:
        return self._copies[index - 1].of_optimizer(self._state) if index else self._state.recording()

    @contextlib.contextmanager
    def _differentiating(self, index: int) -> Iterator[None]:
        with self._place(index), self._making_state(index):
            yield

    @contextlib.contextmanager
    def _updating(self, index: int) -> Iterator[None]:
        scope = tf.name_scope(f"tower{index}/" if index else None)
        with self._place(index), scope, self._making_state(index):
            yield

    def _name_update(self, index: int, name: str) -> str:
        return "update" if index else name

    def _join_updates(self, updates: Sequence[tf.Operation], name: str) -> tf.Operation:
        return super()._join_updates(updates, f"{name}s")


@final
class _CopyAtStart(tf.train.SessionRunHook):
    """Runs an op after the session's variables have been initialised or restored."""

    def __init__(self, op: tf.Operation) -> None:
        self._op = op

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        session.run(self._op)
