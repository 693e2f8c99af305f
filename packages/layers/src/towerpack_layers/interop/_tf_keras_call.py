"""Calls a tf_keras model with the variables of a tower."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, final

import tensorflow.compat.v1 as tf

from .._errors import KerasLayerError
from ..registry import layer_scope, name_output
from ..tower import adapting_keras, get_current_tower_context, graph_notes

__all__ = ["TfKerasCall"]


@final
class TfKerasCall:
    """One call of a layer or model of tf_keras, which is made for this call.

    Random numbers come from TensorFlow's stateful generator: they differ at each step, and in a resumed run.

    Args:
        name: the model's name, which is the scope of its variables.
        make: makes the model.

    Attributes:
        label: its name in errors.
    """

    def __init__(self, name: str, make: Callable[[], Any]) -> None:
        self.name = name
        self.label = f"use_keras({name!r})"
        self._make = make

    def run(self, args: Sequence[Any], kwargs: Mapping[str, Any], training: bool) -> Any:
        """Makes the model, calls it, and adds costs and updates to their collections.

        Raises:
            KerasLayerError: the model has averages and is called a second time in this tower.
        """
        graph = tf.get_default_graph()
        with layer_scope("use_keras", self.name):
            with adapting_keras(), _variables_of_scope(self.name), _fresh_names():
                with _learning_phase(False):
                    model = self._make()
                begin = len(graph.get_operations())
                with _learning_phase(training):
                    result = _call(model, args, kwargs, training)
                called = graph.get_operations()[begin:]
            if training:
                self._collect(model, called)
            return name_output(self.label, result)

    def _collect(self, model: Any, called: Sequence[tf.Operation]) -> None:
        initializers = {variable.initializer.name for variable in tf.global_variables()}
        updates = [op for op in called if op.type.startswith("Assign") and op.name not in initializers]
        if updates:
            self._check_first(updates[0])
        tf.get_collection_ref(tf.GraphKeys.UPDATE_OPS).extend(updates)
        by_name = {op.name for op in called}
        # A functional model also has costs of outputs for its symbolic inputs, which no call computes.
        costs = [cost for cost in model.losses if cost.op.name in by_name or _is_of_a_variable(cost)]
        if tf.get_variable_scope().reuse:
            costs = [cost for cost in costs if not _is_of_a_variable(cost)]
        tf.get_collection_ref(tf.GraphKeys.REGULARIZATION_LOSSES).extend(costs)

    def _check_first(self, update: tf.Operation) -> None:
        tower, moved = get_current_tower_context(), graph_notes().moved
        place = ("use_keras", tf.get_variable_scope().name, "" if tower is None else tower.name)
        if place in moved:
            raise KerasLayerError(
                f"{self.label}: this tf_keras model has averages and is called a second time in this tower: "
                "the updates would race. Use a Keras 3 model, in which calls wait for each other."
            )
        moved[place] = update.name


def _is_of_a_variable(cost: tf.Tensor) -> bool:
    return "/Regularizer/" in cost.name


def _call(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any], training: bool) -> Any:
    takes = "training" in inspect.signature(model.call).parameters
    return model(*args, **kwargs, **({"training": training} if takes else {}))


def _learning_phase(training: bool) -> AbstractContextManager[Any]:
    """Sets the learning phase, the default of `training=` in layers; symbolic inputs use inference."""
    from tf_keras.src import backend

    scope: AbstractContextManager[Any] = backend.deprecated_internal_learning_phase_scope(int(training))
    return scope


@contextlib.contextmanager
def _variables_of_scope(name: str) -> Iterator[None]:
    """Creates the variables of this block with `tf.get_variable`, under the layers' name scopes."""
    graph = tf.get_default_graph()
    around = f"{graph.get_name_scope()}/"
    busy: list[bool] = []

    def create(next_creator: Callable[..., Any], **arguments: Any) -> Any:
        if busy:
            return next_creator(**arguments)
        scope = f"{graph.get_name_scope()}/".removeprefix(around).removeprefix(f"{name}/")
        busy.append(True)
        try:
            return _get_variable(f"{scope}{arguments.get('name') or 'variable'}", arguments)
        finally:
            busy.pop()

    with tf.variable_creator_scope(create):
        yield


def _get_variable(name: str, arguments: Mapping[str, Any]) -> Any:
    first = arguments["initial_value"]
    trainable = arguments.get("trainable") is not False
    shape = arguments.get("shape")
    if shape is None:
        with tf.Graph().as_default():
            shape = first().shape
    return tf.get_variable(
        name,
        shape,
        arguments.get("dtype"),
        lambda shape, dtype=None: first(),
        regularizer=tf.no_regularizer,
        constraint=arguments.get("constraint"),
        trainable=trainable,
        collections=[tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.MODEL_VARIABLES],
    )


@contextlib.contextmanager
def _fresh_names() -> Iterator[None]:
    """Restarts tf_keras's automatic names in this block.

    tf_keras has no public API for this that keeps the counts of other models.
    """
    from tf_keras.src import backend

    counts = backend.get_default_graph_uid_map()
    before = dict(counts)
    counts.clear()
    try:
        yield
    finally:
        counts.clear()
        counts.update(before)
