"""Towers with separate variables: copies of the first tower's variables, which alone are saved."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf

from .._errors import TowerRuleError

__all__ = ["Copies", "Originals", "independent_optimizer"]

_SHARE_INSTEAD = (
    "Every tower must make the same variables, with tf.get_variable, under names that do not depend on the "
    "tower. Objects that are made once and kept need towers with shared variables, such as those of "
    "SyncMultiGPUTrainerParameterServer."
)


@final
class Originals:
    """Records the global variables of the first tower, in order of creation."""

    def __init__(self) -> None:
        self.variables: list[tf.Variable] = []

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Records the variables made in this block."""
        with tf.variable_creator_scope(self._record):
            yield

    def _record(self, next_creator: Any, **arguments: Any) -> tf.Variable:
        variable = next_creator(**arguments)
        if _is_global(arguments):
            self.variables.append(variable)
        return variable


@final
class Copies:
    """Makes the global variables of a later tower local: each one is a copy of a variable of the first tower.

    Local variables are initialised, and neither saved nor restored.

    Args:
        tower: the tower's name, which is the scope of its variables: "tower1/conv0/W".
    """

    def __init__(self, tower: str) -> None:
        self._tower = tower
        self.pairs: list[tuple[tf.Variable, tf.Variable]] = []
        self._optimizers_so_far = 0

    @contextlib.contextmanager
    def of_model(self, originals: Originals) -> Iterator[None]:
        """Pairs the variables made in this block with the first tower's variables of the same names.

        Raises:
            TowerRuleError: the two towers make different variables; the message names the variable and the
                tower.
        """
        left = {variable.op.name: variable for variable in originals.variables}

        def find(name: str) -> tf.Variable | None:
            return left.pop(name.removeprefix(f"{self._tower}/"), None)

        with tf.variable_creator_scope(self._maker(find)):
            yield
        if left:
            raise TowerRuleError(
                f"Tower {self._tower!r} has not made its own variable {', '.join(sorted(left))}, which tower "
                f"0 has. {_SHARE_INSTEAD}"
            )

    @contextlib.contextmanager
    def of_optimizer(self, originals: Originals) -> Iterator[None]:
        """Pairs the variables made in this block with those of the first tower's optimizer, in order."""

        def find(_: str) -> tf.Variable | None:
            left = originals.variables[self._optimizers_so_far :]
            self._optimizers_so_far += 1
            return left[0] if left else None

        scope = tf.variable_scope(self._tower, auxiliary_name_scope=False)
        with tf.variable_creator_scope(self._maker(find)), scope:
            yield

    def _maker(self, find: Callable[[str], tf.Variable | None]) -> Callable[..., tf.Variable]:
        def make(next_creator: Any, **arguments: Any) -> tf.Variable:
            if not _is_global(arguments):
                return next_creator(**arguments)
            scope = tf.get_default_graph().get_name_scope()
            name = "/".join(filter(None, (scope, arguments.get("name") or "Variable")))
            original = self._check(name, find(name), arguments.get("shape"))
            variable = next_creator(**_copying(original, arguments))
            self.pairs.append((original, variable))
            return variable

        return make

    def _check(self, name: str, original: tf.Variable | None, shape: Any) -> tf.Variable:
        if original is None:
            raise TowerRuleError(
                f"Tower {self._tower!r} has made the variable {name!r}, which tower 0 does not have. "
                f"{_SHARE_INSTEAD}"
            )
        if shape is not None and not original.shape.is_compatible_with(shape):
            raise TowerRuleError._of_replicas(
                f"Tower {self._tower!r} has made the variable {name!r} of shape {tf.TensorShape(shape)}; "
                f"that of tower 0, {original.op.name!r}, has shape {original.shape}"
            )
        return original


def _is_global(arguments: dict[str, Any]) -> bool:
    collections = arguments.get("collections")
    return collections is None or tf.GraphKeys.GLOBAL_VARIABLES in collections


def _copying(original: tf.Variable, arguments: dict[str, Any]) -> dict[str, Any]:
    collections: Sequence[str] = arguments.get("collections") or [tf.GraphKeys.GLOBAL_VARIABLES]
    local = [
        tf.GraphKeys.LOCAL_VARIABLES if key == tf.GraphKeys.GLOBAL_VARIABLES else key for key in collections
    ]
    # The original's own value if both are initialised in one run, without an op that computes another.
    return {**arguments, "collections": local, "initial_value": lambda: original.initial_value}


def independent_optimizer(optimizer: tf.train.Optimizer) -> tf.train.Optimizer:
    """Copies an optimizer: the copy has the same hyperparameters and its own state.

    Hyperparameters that are variables stay shared, so setting one sets it for all copies. A wrapped
    optimizer is copied together with its wrapper.

    Args:
        optimizer: an optimizer that makes its state when gradients are computed and applied, like those of
            TensorFlow and of this package.
    """
    mine = copy.copy(optimizer)
    for name, value in vars(mine).items():
        if isinstance(value, tf.train.Optimizer):
            setattr(mine, name, independent_optimizer(value))
        elif isinstance(value, (dict, list)):
            setattr(mine, name, copy.copy(value))
    return mine
