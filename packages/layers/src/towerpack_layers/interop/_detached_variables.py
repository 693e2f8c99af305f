"""Keeps Keras's own variables out of the graph under construction.

Each call passes the values to the model (`_keras3_call.py`), so the model's own variables only provide shapes
and initial values. They are created in a separate graph without a session.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow.compat.v1 as tf

from .._errors import KerasLayerError

__all__ = ["detached", "initial_value", "library_of", "make_aside", "make_detached", "make_eagerly"]

# The collection of the separate graph's variables, each with the function or tensor of its initial value.
_INITIAL_VALUES = "towerpack_initial_values"
_KEPT_BY_KERAS = ("object_name_uids", "global_seed_generator")


def library_of(candidate: object) -> str | None:
    """Returns "keras" for a layer or model of Keras 3, "tf_keras" for one of tf_keras, else `None`."""
    for kind in type(candidate).__mro__:
        package = kind.__module__.partition(".")[0]
        if kind.__name__ == "Layer" and package in {"keras", "tf_keras"}:
            return package
    return None


def make_aside(make: Callable[[], Any]) -> Any:
    """Calls a function that makes a model in a separate graph, to inspect the model."""
    with tf.Graph().as_default(), _fresh_keras():
        return make()


def make_detached(make: Callable[[], Any]) -> Any:
    """Calls a function that makes a Keras 3 model, with variables in a separate graph."""
    with detached(), tf.name_scope("use_keras"):
        return make()


def make_eagerly(make: Callable[[], Any]) -> Any:
    """Calls a function that makes a Keras 3 model in eager mode, in which Keras can load and set weights."""
    with tf.compat.v2.__internal__.eager_context.eager_mode(), _fresh_keras():
        return make()


@contextlib.contextmanager
def detached() -> Iterator[None]:
    """Creates the variables of this block in a separate graph, where the rules of towers do not apply.

    Keras restarts its automatic names in this block, as in a new process.
    """
    aside = tf.Graph()

    def create(next_creator: Callable[..., Any], **arguments: Any) -> Any:
        first = arguments["initial_value"]
        given = {key: arguments[key] for key in ("name", "dtype", "trainable") if key in arguments}
        with aside.as_default():
            value = first if callable(first) else tf.zeros(first.shape, first.dtype)
            variable = tf.compat.v2.Variable(value, **given)
            aside.add_to_collection(_INITIAL_VALUES, (variable, first))
        return variable

    with _fresh_keras(), tf.variable_creator_scope(create):
        yield


def initial_value(call: str, variable: Any) -> Callable[[], Any]:
    """Returns a function that creates the initial value of a model's variable in any graph.

    Args:
        call: the label of the call, for errors.
        variable: a variable of Keras 3.

    Raises:
        KerasLayerError: the variable belongs to a graph that this module did not create.
    """
    own = variable.value
    if hasattr(own.handle, "numpy"):
        return lambda: _read_eagerly(own)
    for known, first in own.graph.get_collection(_INITIAL_VALUES):
        if known is own:
            return first if callable(first) else functools.partial(tf.identity, first)
    raise KerasLayerError(
        f"{call}: its variable {variable.path!r} was made in a graph, outside of use_keras. Pass use_keras "
        "the function that makes the model, instead of the model."
    )


@contextlib.contextmanager
def _fresh_keras() -> Iterator[None]:
    """Resets Keras's global state for this block; Keras has no public API for this.

    This state is the counts of automatic names, and the generator for calls without a seed, which Keras
    creates in the first graph that needs it.
    """
    from keras.src.backend.common import global_state

    before = {key: global_state.get_global_attribute(key) for key in _KEPT_BY_KERAS}
    for key in _KEPT_BY_KERAS:
        global_state.set_global_attribute(key, None)
    try:
        yield
    finally:
        for key, value in before.items():
            global_state.set_global_attribute(key, value)


def _read_eagerly(variable: Any) -> Any:
    with tf.compat.v2.__internal__.eager_context.eager_mode():
        return variable.numpy()
