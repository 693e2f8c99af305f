"""The sum of a tensor over all towers, for layers that need it while the towers are still being built.

The first tower takes the sum before the others exist. So a tower gets a deferred op, which at first returns
the tower's own tensor; after the last tower has taken the sum as well, all of them are connected to it. The
same happens in backpropagation: the gradient of the total cost with respect to one tower's tensor is the sum
of the gradients of all towers, each of its own cost, and these are built one tower after another, too.

Within a session call, towers wait for each other only for these data: running one of them also runs the
needed parts of the others. With several processes, the sum over the towers of this process is then summed
over all processes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

from .._errors import TowerRuleError

__all__ = ["UNSYNCHRONIZED", "CrossTowerSum", "OverProcesses"]

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
                raise TowerRuleError(
                    f"Tower {tower} has no cross-tower sum at {self._forward[taken].place!r}, where other "
                    "towers have one. A tower function must build the same replica each time."
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
            raise TowerRuleError(
                f"Tower {tower} takes a cross-tower sum at {place!r}, where tower 0 has {theirs}. "
                "A tower function must build the same replica each time."
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
