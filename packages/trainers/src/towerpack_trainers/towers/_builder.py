"""The base class of all builders: replicas of a model, the ops that train them, and sums over towers."""

from __future__ import annotations

import abc
import contextlib
import itertools
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback
from towerpack_layers import TowerContext

from .._argument_checks import make_optimizer
from .._errors import ConfigError, TowerRuleError
from ._objective import (
    MakeOptimizer,
    Objective,
    Pairs,
    choose_variables,
    compute_gradients,
    gate_gradients,
    read_objectives,
    reads_of_others,
    warn_of_unused_costs,
)
from ._tower import Tower, TowerFunc

__all__ = [
    "UNSYNCHRONIZED",
    "Builder",
    "CrossTowerSum",
    "Exchange",
    "OverProcesses",
    "SingleDeviceBuilder",
    "TakeInputs",
    "check_same_variables",
]

_log = logging.getLogger("towerpack_trainers")

TakeInputs = Callable[[], Sequence[tf.Tensor]]
Exchange = Callable[[Pairs], Pairs]


class Builder(abc.ABC):
    """Adds the training towers of a model to the current graph, and the ops that train them.

    A builder is independent of trainers: build the graph with it, and run the ops in any loop. `build` is
    for a model with objectives, or with one cost and one optimizer; `call_for_each_tower` makes only the
    towers.

    A subclass defines the devices of towers, the ownership of their variables, and the combination of their
    gradients.

    Args:
        count: the number of towers.
        seed: makes dropout masks depend only on seed, step, tower and layer. None: they differ in each run.
        exchange: takes the gradients and variables of one objective, and returns as many pairs, such as
            averages over processes; all gradients must become available together. Its attribute `sum`, if it
            has one, connects layers that need the batches of all processes. Subclasses call it in
            `_combine`.

    Attributes:
        towers: the towers, after they are built.
        updates: one op per objective, which trains only that objective, in the order of the objectives. For
            one objective it is the op that `build` returns.
        steps: for each tower, the number of the step, an integer tensor on which its random numbers depend;
            empty without a seed.

    Example:
        >>> from towerpack_trainers import SingleDeviceBuilder
        >>> def cost(x):
        ...     weight = tf.get_variable("weight", [])
        ...     return tf.square(x - weight)
        >>> with tf.Graph().as_default():
        ...     optimizer = tf.train.GradientDescentOptimizer(0.1)
        ...     train_op = SingleDeviceBuilder().build(cost, lambda: [tf.constant(1.0)], optimizer)
    """

    def __init__(self, count: int, seed: int | None = None, exchange: Exchange | None = None) -> None:
        self.towers: list[Tower] = []
        self.updates: list[tf.Operation] = []
        self.steps: list[tf.Tensor] = []
        self._count = count
        self._seed = seed
        self._inputs: list[tf.Tensor] = []
        self._exchange = exchange
        self._sum = CrossTowerSum(count, getattr(exchange, "sum", None))

    def build(
        self,
        cost_function: TowerFunc | Callable[..., Any],
        take_inputs: TakeInputs,
        optimizer: tf.train.Optimizer | MakeOptimizer | None = None,
    ) -> tf.Operation:
        """Builds the towers, their gradients and the updates.

        The returned op trains all objectives in one step, on the same inputs: all gradients use the values
        from before the step. The order of the updates is undefined, so variables that two objectives share
        get both updates, in any order. If the order matters, or one objective is trained more often than
        another, run the ops of `updates` one after another: each run takes new inputs, and computes no
        gradient of another objective.

        Args:
            cost_function: a tower function, see `ModelDesc.build_graph`. Without `optimizer`, it returns an
                `Objective` or a list of them; with it, the cost, a scalar.
            take_inputs: called once per tower, for the arguments of `cost_function`; for example
                `source.get_input_tensors`.
            optimizer: trains all variables with the single cost; or a function that makes it inside the
                graph.

        Returns:
            The op of one step. The towers are in `towers`, the ops of single objectives in `updates`.

        Raises:
            TowerRuleError: the towers differ, or break another rule of tower functions.
            ModelError: the function returned another type, or a cost depends on none of its variables.
            TypeError: an optimizer is not a TensorFlow optimizer.
        """
        function = self._begin(cost_function)
        first: list[Objective] = []
        optimizers: list[list[tf.train.Optimizer]] = []
        gradients: list[list[Pairs]] = []
        for index in range(self._count):
            tower = self._build_tower(function, take_inputs)
            objectives = read_objectives(tower.output, optimizer)
            if not index:
                first = objectives
                optimizers = self._optimizers([make_optimizer(objective.optimizer) for objective in first])
                _warn_of_untrained(first, tower)
                warn_of_unused_costs([objective.cost for objective in first])
            _check_number(index, len(objectives), len(first))
            gradients.append(self._differentiate(tower, objectives, first, optimizers[index]))
        self._sum.check_complete()
        for number in range(len(first)):
            self._check_same_variables([tower_gradients[number] for tower_gradients in gradients])
        self.updates = [self._update(number, optimizers, gradients) for number in range(len(first))]
        return self.updates[0] if len(first) == 1 else tf.group(*self.updates, name="train_op")

    def call_for_each_tower(
        self, function: TowerFunc | Callable[..., Any], take_inputs: TakeInputs = tuple
    ) -> list[Any]:
        """Calls a tower function for each tower, within the tower, and returns the results.

        Args:
            function: adds one replica.
            take_inputs: called once per tower, for the arguments of `function`.

        Raises:
            TowerRuleError: the towers differ, or break another rule of tower functions.
        """
        function = self._begin(function)
        outputs = [self._build_tower(function, take_inputs).output for _ in range(self._count)]
        self._sum.check_complete()
        return outputs

    def hooks(self) -> list[tf.train.SessionRunHook]:
        """Returns the hooks that the session needs, after the graph is built."""
        return []

    def callbacks(self) -> list[Callback]:
        """Returns the additional callbacks that a trainer must run, after the graph is built."""
        return []

    # ---- hooks of subclasses

    _own_variables = False

    @abc.abstractmethod
    def _place(self, index: int) -> AbstractContextManager[Any]:
        """Opens the device scope of a tower."""

    @abc.abstractmethod
    def _combine(self, gradients: Sequence[Pairs]) -> Sequence[Pairs]:
        """Combines the gradients of one objective.

        Args:
            gradients: the gradients of each tower.

        Returns:
            Gradients and variables of each update: a single one, or one per tower.
        """

    def _making_variables(self, index: int) -> AbstractContextManager[Any]:
        """Returns a context for building a tower."""
        return contextlib.nullcontext()

    def _optimizers(self, first: list[tf.train.Optimizer]) -> list[list[tf.train.Optimizer]]:
        """Returns the optimizers of the objectives for each tower, given those of the first tower."""
        return [first] * self._count

    def _differentiating(self, index: int) -> AbstractContextManager[Any]:
        """Returns a context for making a tower's gradients."""
        return self._place(index)

    def _scale(self, pairs: Pairs) -> Pairs:
        """Returns the scaled gradients of a tower."""
        return pairs

    def _updating(self, index: int) -> AbstractContextManager[Any]:
        """Returns a context for making an update from gradients that `_combine` has returned."""
        return contextlib.nullcontext()

    def _gate(self, pairs: Pairs, after: Sequence[tf.Operation]) -> Pairs:
        """Holds gradients back until all are computed, and the given ops have run."""
        return gate_gradients(pairs, after)

    def _name_update(self, index: int, name: str) -> str:
        """Returns the name of one of the updates that form the op of the given name."""
        return name

    def _join_updates(self, updates: Sequence[tf.Operation], name: str) -> tf.Operation:
        """Combines the updates of an objective into one op."""
        return updates[0] if len(updates) == 1 else tf.group(*updates, name=name)

    # ---- towers

    def _begin(self, function: TowerFunc | Callable[..., Any]) -> TowerFunc:
        if self.towers:
            raise ConfigError(
                f"{type(self).__name__} has built its towers already. Make a new builder for a new graph."
            )
        tf.train.get_or_create_global_step()
        return function if isinstance(function, TowerFunc) else TowerFunc(function, [])

    def _build_tower(self, function: TowerFunc, take_inputs: TakeInputs) -> Tower:
        index = len(self.towers)
        context = self._context(index)
        with self._place(index):
            # The inputs are taken in sequence, so that each run gives each tower the same datapoints. Staged
            # inputs were taken before the run, and cannot wait for ops of the run.
            with tf.control_dependencies([] if any(map(_is_staged, self._inputs)) else self._inputs):
                self._inputs = list(take_inputs())
            with self._making_variables(index):
                tower = function.build(context, self._inputs)
        self.towers.append(tower)
        return tower

    def _context(self, index: int) -> TowerContext:
        name = f"tower{index}" if self._count > 1 else ""
        own = index > 0 and self._own_variables
        if self._seed is not None:
            self.steps.append(tf.train.get_global_step().read_value())
        return TowerContext(
            name,
            is_training=True,
            index=index,
            num_towers=self._count,
            variable_scope=name if own else "",
            reuse=True if index and not own else None,
            random_seed=self._seed,
            step=self.steps[-1] if self.steps else None,
            cross_tower_sum=self._sum.of(index, name) if self._has_sum() else None,
        )

    def _has_sum(self) -> bool:
        """Returns whether layers get a sum function: with several towers, if their number is known."""
        if getattr(self._exchange, "sum", None) is not None:
            return True
        # An exchange with a sum of None has one process; without the attribute, the number is unknown.
        return self._count > 1 and (self._exchange is None or hasattr(self._exchange, "sum"))

    # ---- gradients and updates

    def _differentiate(
        self,
        tower: Tower,
        objectives: Sequence[Objective],
        first: Sequence[Objective],
        optimizers: Sequence[tf.train.Optimizer],
    ) -> list[Pairs]:
        gradients = []
        with self._differentiating(tower.context.index):
            for number, (objective, of_first, optimizer) in enumerate(zip(objectives, first, optimizers)):
                self._sum.objective = number
                label = "The cost" if len(first) == 1 else f"The cost {objective.cost.op.name!r}"
                variables = choose_variables(of_first, tower)
                pairs = compute_gradients(tower, objective.cost, variables, optimizer, label)
                gradients.append(self._scale(pairs))
        self._sum.objective = None
        return gradients

    def _check_same_variables(self, gradients: Sequence[Pairs]) -> None:
        names = []
        for tower, pairs in zip(self.towers, gradients):
            prefix = f"{tower.context.variable_scope}/"
            names.append([variable.op.name.removeprefix(prefix) for _, variable in pairs])
        check_same_variables(names)

    def _update(
        self,
        number: int,
        optimizers: Sequence[Sequence[tf.train.Optimizer]],
        gradients: Sequence[Sequence[Pairs]],
    ) -> tf.Operation:
        """Makes the op that trains one objective in all towers."""
        others = [[*row[:number], *row[number + 1 :]] for row in gradients]
        name = "train_op" if len(gradients[0]) == 1 else f"train_op_of_objective{number}"
        combined = self._combine([row[number] for row in gradients])
        updates = []
        for index, pairs in enumerate(combined):
            beside = others[index] if len(combined) == self._count else [*itertools.chain(*others)]
            with self._updating(index):
                gated = self._gate(pairs, reads_of_others(pairs, beside))
                optimizer = optimizers[index][number]
                updates.append(optimizer.apply_gradients(gated, name=self._name_update(index, name)))
        return self._join_updates(updates, name)


def check_same_variables(towers: Sequence[Sequence[str]]) -> None:
    """Checks that all towers train the same variables, in the same order.

    Args:
        towers: for each tower, the names of its variables, without the tower's own prefix.

    Raises:
        TowerRuleError: the variables differ; the message names them and the tower.
    """
    first = list(towers[0])
    for index, names in enumerate(towers):
        if list(names) != first:
            different = sorted(set(names) ^ set(first)) or list(names)
            raise TowerRuleError._of_replicas(
                f"Tower {index} does not train the same variables as tower 0; they differ in: "
                f"{', '.join(different)}"
            )


def _check_number(index: int, number: int, expected: int) -> None:
    if number != expected:
        raise TowerRuleError._of_replicas(
            f"Tower {index} has {number} objectives, and tower 0 has {expected}"
        )


def _warn_of_untrained(objectives: Sequence[Objective], tower: Tower) -> None:
    trained = {id(variable) for objective in objectives for variable in choose_variables(objective, tower)}
    left = [variable.op.name for variable in tower.trainable_variables if id(variable) not in trained]
    if left:
        _log.warning("These variables belong to no objective and are not trained: %s.", ", ".join(left))


def _is_staged(tensor: tf.Tensor) -> bool:
    op = tensor.op
    while op.type == "Identity":
        op = op.inputs[0].op
    return bool(op.type == "Unstage")


@final
class SingleDeviceBuilder(Builder):
    """Adds one training tower to the current graph, without a scope, and the ops that train it.

    With an exchange, several processes of one tower each train together: each objective applies the result
    of the exchange, such as the average over all processes.

    Args:
        seed: see `Builder`.
        exchange: see `Builder`. Called once per objective, in order.

    Example:
        ```python
        builder = SingleDeviceBuilder()
        train_op = builder.build(cost_function, source.get_input_tensors, tf.train.AdamOptimizer())
        ```
    """

    def __init__(self, seed: int | None = None, exchange: Exchange | None = None) -> None:
        super().__init__(1, seed, exchange)

    def _place(self, index: int) -> AbstractContextManager[Any]:
        return contextlib.nullcontext()

    def _combine(self, gradients: Sequence[Pairs]) -> Sequence[Pairs]:
        return gradients if self._exchange is None else [self._exchange(gradients[0])]

    def _gate(self, pairs: Pairs, after: Sequence[tf.Operation]) -> Pairs:
        # An exchange has already gated them.
        return super()._gate(pairs, after) if after or self._exchange is None else pairs


# A convention with layers and exchanges: the labels of layers with sums that do not include all processes.
UNSYNCHRONIZED = "UNSYNCHRONIZED_STATISTICS"

# Maps the sum over this process's towers, and the number of the objective of the current gradients (None: the
# model), to the sum over all processes.
OverProcesses = Callable[[tf.Tensor, int | None], tf.Tensor]


@final
@attrs.define
class _Meeting:
    """One place in the model where the towers are summed, for one direction."""

    place: str
    waiting: list[tf.Operation] = attrs.field(factory=list)
    tensors: list[tf.Tensor] = attrs.field(factory=list)

    def join(self, tensor: tf.Tensor) -> tf.Tensor:
        """Returns the deferred sum for a tower's tensor."""
        deferred = tf.identity(tensor, name="cross_tower_sum")
        self.tensors.append(tensor)
        self.waiting.append(deferred.op)
        return deferred

    def connect_if_complete(self, towers: int, go_on: Callable[[tf.Tensor], tf.Tensor]) -> None:
        """Connects the deferred ops to the sum, if the last tower has joined.

        Args:
            towers: the number of towers.
            go_on: maps the sum over the towers to the result for each of them.
        """
        if len(self.tensors) == towers:
            with tf.name_scope(None), tf.control_dependencies(None):
                total = go_on(tf.add_n(self.tensors))
            for op in self.waiting:
                # There is no public way to change an op's input, as is needed for loops that are built
                # before their ends; every version of TensorFlow has this one.
                op._update_input(0, total)


@final
class CrossTowerSum:
    """Makes the sum function that a tower's `TowerContext` passes to its layers.

    Args:
        towers: the number of towers.
        over_processes: sums over all processes; None for a single process.

    Attributes:
        objective: the number of the objective of the current gradients; None: the model.

    Example:
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     sums, totals = CrossTowerSum(towers=2), []
        ...     for tower in range(2):
        ...         with tf.name_scope(f"tower{tower}"):
        ...             totals.append(sums.of(tower, f"tower{tower}")(tf.constant(float(tower + 1))))
        ...     sums.check_complete()
        ...     print([float(total) for total in session.run(totals)])
        [3.0, 3.0]
    """

    def __init__(self, towers: int, over_processes: OverProcesses | None = None) -> None:
        self.objective: int | None = None
        self._towers = towers
        self._over_processes = over_processes
        self._forward: list[_Meeting] = []
        self._backward: dict[tuple[int, int], _Meeting] = {}
        self._taken = [0] * towers

    def of(self, tower: int, name: str) -> Callable[[tf.Tensor], tf.Tensor]:
        """Returns the function of one tower that maps its tensor to the sum over all.

        Args:
            tower: the index of the tower.
            name: its name scope.
        """

        def total(tensor: tf.Tensor) -> tf.Tensor:
            number = self._taken[tower]
            self._taken[tower] += 1
            place = f"{tf.get_default_graph().get_name_scope()}/".removeprefix(f"{name}/").rstrip("/")
            self._check_place(tower, number, place, tensor)
            return self._differentiable(number, tensor)

        return total

    def check_complete(self) -> None:
        """Checks, after all towers are built, that each has taken every sum.

        Raises:
            TowerRuleError: a tower lacks a sum; the message names the tower and the place.
        """
        for tower, taken in enumerate(self._taken):
            if taken < len(self._forward):
                place = self._forward[taken].place
                raise TowerRuleError._of_replicas(
                    f"Tower {tower} has no cross-tower sum at {place!r}, where other towers have one"
                )

    def _check_place(self, tower: int, number: int, place: str, tensor: tf.Tensor) -> None:
        if tower == 0:
            self._forward.append(_Meeting(place))
            if self._over_processes is None:
                tf.add_to_collection(UNSYNCHRONIZED, f"the layer in {place!r}")
            return
        expected = self._forward[number] if number < len(self._forward) else None
        if expected is None or expected.place != place:
            theirs = "none there" if expected is None else f"its one at {expected.place!r}"
            raise TowerRuleError._of_replicas(
                f"Tower {tower} takes a cross-tower sum at {place!r}, where tower 0 has {theirs}"
            )
        first = expected.tensors[0]
        if first.shape.as_list() != tensor.shape.as_list() or first.dtype != tensor.dtype:
            raise TowerRuleError(
                f"Tower {tower} takes a cross-tower sum at {place!r} of {tensor.shape} {tensor.dtype.name}, "
                f"tower 0 of {first.shape} {first.dtype.name}."
            )

    def _differentiable(self, number: int, tensor: tf.Tensor) -> tf.Tensor:
        forward, times = self._forward[number], 0

        def exchange(mine: tf.Tensor) -> tuple[tf.Tensor, Callable[..., Any]]:
            def backward(gradient: tf.Tensor) -> tf.Tensor:
                nonlocal times
                times += 1
                # The n-th gradient of one tower belongs to the n-th of the others.
                key = number, times
                meeting = self._backward.setdefault(key, _Meeting(forward.place))
                deferred = meeting.join(gradient)
                meeting.connect_if_complete(self._towers, self._sum_over_processes)
                return deferred

            return forward.join(mine), backward

        result = tf.custom_gradient(exchange)(tensor)
        # Not earlier: custom_gradient searches the dependencies of the result for variables.
        forward.connect_if_complete(self._towers, self._sum_over_processes)
        return result

    def _sum_over_processes(self, tensor: tf.Tensor) -> tf.Tensor:
        return tensor if self._over_processes is None else self._over_processes(tensor, self.objective)
