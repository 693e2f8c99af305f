"""Replicas of a model: how one is built, what it must keep to, and how to find its tensors."""

from __future__ import annotations

import contextlib
import inspect
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

from towerpack_callbacks import MOVING_SUMMARIES, TensorNotFoundError, find_tensors
from towerpack_callbacks.graph import sources_of
from towerpack_layers import TowerContext

from .._errors import ModelError, TowerRuleError

__all__ = ["Tower", "TowerFunc", "check_specs", "no_moving_summaries"]

_log = logging.getLogger("towerpack_trainers")

# Collections that the main training tower alone may add to: once is enough, and statistics are its own.
_MAIN_TOWER_ONLY = (tf.GraphKeys.UPDATE_OPS, tf.GraphKeys.SUMMARIES, MOVING_SUMMARIES)
_TRAINING_ONLY = (*_MAIN_TOWER_ONLY, tf.GraphKeys.REGULARIZATION_LOSSES)
# A copy of the model is no second model: what describes or regularizes the model shall find one.
_ORIGINALS_ONLY = (
    *_MAIN_TOWER_ONLY,
    tf.GraphKeys.REGULARIZATION_LOSSES,
    tf.GraphKeys.TRAINABLE_VARIABLES,
    tf.GraphKeys.MODEL_VARIABLES,
)


@final
@attrs.frozen(eq=False)
class Tower:
    """One replica that was built.

    Attributes:
        context: its tower context.
        inputs: its input tensors by the names of the model's specs.
        output: the value that the tower function returned.
        trainable_variables: those that its cost can be minimised by: its own variables, or shared ones.
    """

    context: TowerContext
    inputs: dict[str, tf.Tensor]
    output: Any
    graph: tf.Graph
    trainable_variables: tuple[tf.Variable, ...] = ()

    def get_tensors(self, names: Sequence[str], anywhere: bool = False) -> list[tf.Tensor]:
        """Returns tensors by the names the model gave them, or by the names of its inputs.

        What is not in this tower may be shared by all: a variable, or what is computed of variables alone,
        such as a learning rate.

        Args:
            names: with or without the ":0".
            anywhere: look in the whole graph before this tower.

        Raises:
            TypeError: `names` is one string.
            TensorNotFoundError: there is none; the message lists close names.
        """
        if isinstance(names, str):
            raise TypeError(f"Expected a list of names, received one string: {names!r}. Write [{names!r}].")
        own = f"{self.context.name}/" if self.context.name else ""
        prefixes = ["", own] if anywhere else [own]
        return [self._get_tensor(name, prefixes) for name in names]

    def _get_tensor(self, name: str, prefixes: Sequence[str]) -> tf.Tensor:
        wanted = name.removesuffix(":0")
        if wanted in self.inputs:
            return self.inputs[wanted]
        try:
            return find_tensors(self.graph, [name], prefixes)[0]
        except TensorNotFoundError:
            shared = self._find_shared(name)
            if shared is None:
                raise
            return shared

    def _find_shared(self, name: str) -> tf.Tensor | None:
        try:
            tensor = find_tensors(self.graph, [name])[0]
        except TensorNotFoundError:
            return None
        # What depends on data belongs to another tower, which is fetched with data of its own.
        return None if sources_of([tensor]) else tensor


@final
class TowerFunc:
    """A function that adds one replica to the graph, with the record of where it was called.

    Args:
        function: takes one tensor per spec; see `ModelDesc.build_graph`.
        specs: its inputs.

    Raises:
        ModelError: the specs are not distinct, well-named `tf.TensorSpec`s, or the function takes another
            number of tensors.
    """

    def __init__(self, function: Callable[..., Any], specs: Sequence[tf.TensorSpec]) -> None:
        self.specs = check_specs(specs)
        _check_arguments(function, self.specs)
        self._function = function
        self.towers: list[Tower] = []

    def build(self, context: TowerContext, inputs: Sequence[tf.Tensor]) -> Tower:
        """Builds one replica within `context`, and checks the rules of tower functions.

        Raises:
            TowerRuleError: the function broke a rule.
        """
        graph = tf.get_default_graph()
        dropped = _not_counted(context)
        before = set(_variable_names(graph))
        with _keep_out(graph, dropped), context:
            output = self._function(*inputs)
            trainable = _trainable_variables(context)
        new = [name for name in _variable_names(graph) if name not in before]
        _check_new_variables(context, new)
        by_name = {spec.name: tensor for spec, tensor in zip(self.specs, inputs)}
        tower = Tower(context, by_name, output, graph, trainable)
        self.towers.append(tower)
        return tower

    @property
    def training(self) -> list[Tower]:
        """The replicas that train, in the order they were built."""
        return [tower for tower in self.towers if tower.context.is_training]


def check_specs(specs: Sequence[tf.TensorSpec], owner: str = "inputs() must return") -> list[tf.TensorSpec]:
    """Checks that inputs are described by distinct, well-named specs.

    Args:
        specs: the specs.
        owner: how messages begin.

    Raises:
        ModelError: they are not.
    """
    if not isinstance(specs, (list, tuple)):
        raise ModelError(
            f"{owner} a list of tf.TensorSpec, received {specs!r}. Give one for each component of a "
            'datapoint, in order: [tf.TensorSpec([None, 28, 28], tf.float32, "image"), ...].'
        )
    specs = list(specs)
    for spec in specs:
        if not isinstance(spec, tf.TensorSpec):
            raise ModelError(
                f"{owner} a list of tf.TensorSpec, received an element {spec!r}. "
                'Write tf.TensorSpec([None, 28, 28], tf.float32, "image").'
            )
        if not spec.name or re.search(r"[:/ ]", spec.name):
            raise ModelError(
                f"{owner} tf.TensorSpecs, of which {spec!r} needs a name without ':', '/' and spaces."
            )
    names = [spec.name for spec in specs]
    if len(set(names)) != len(names):
        raise ModelError(f"{owner} distinct specs: names must be distinct, received {names}.")
    return specs


def _check_arguments(function: Callable[..., Any], specs: Sequence[tf.TensorSpec]) -> None:
    if not specs:  # the function brings its inputs along
        return
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):  # a builtin function has none
        return
    try:
        signature.bind(*specs)
    except TypeError:
        names, called = [spec.name for spec in specs], getattr(function, "__qualname__", repr(function))
        raise ModelError(
            f"{called}{signature} cannot take the {len(names)} inputs {names}. It gets one tensor for each, "
            "in this order: give it as many arguments, or declare other inputs."
        ) from None


def _not_counted(context: TowerContext) -> Sequence[str]:
    if not context.is_training:
        return _TRAINING_ONLY
    if context.has_own_variables:
        return _ORIGINALS_ONLY
    return () if context.is_main_training_tower else _MAIN_TOWER_ONLY


def _trainable_variables(context: TowerContext) -> tuple[tf.Variable, ...]:
    key = tf.GraphKeys.TRAINABLE_VARIABLES
    own = context.has_own_variables
    return tuple(context.get_collection_in_tower(key) if own else tf.get_collection(key))


def _variable_names(graph: tf.Graph) -> list[str]:
    return [variable.op.name for variable in graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)]


def _check_new_variables(context: TowerContext, names: Sequence[str]) -> None:
    for name in names:
        if context.has_own_variables:
            continue
        if context.reuse or (context.name and name.startswith(f"{context.name}/")):
            raise TowerRuleError(
                f"Tower {context.name!r} made a variable of its own, {name!r}, but towers share variables. "
                "Make them by tf.get_variable (not by tf.Variable, nor by a Keras layer that is new in each "
                "tower), under names that do not depend on the tower."
            )
        if re.search(r"(^|/)tower\w*/", name):
            raise TowerRuleError(
                f"Variable {name!r} is in a scope whose name begins with 'tower'. Such scopes belong to the "
                "replicas themselves; rename yours."
            )


def no_moving_summaries(graph: tf.Graph) -> AbstractContextManager[None]:
    """Keeps what an evaluation adds out of the summaries that each training step computes."""
    return _keep_out(graph, [MOVING_SUMMARIES])


@contextlib.contextmanager
def _keep_out(graph: tf.Graph, keys: Sequence[str]) -> Iterator[None]:
    """Removes the additions of the block to some collections."""
    lengths = {key: len(graph.get_collection_ref(key)) for key in keys}
    try:
        yield
    finally:
        for key, length in lengths.items():
            del graph.get_collection_ref(key)[length:]
