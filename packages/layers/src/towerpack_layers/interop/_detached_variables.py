"""Variables that Keras makes for itself, kept out of the graph under construction.

The values that a model computes with are given to it at each call (`_keras3_call.py`), so the variables that
it makes for itself are needed for their shapes and initial values alone. They are made in a graph aside,
which has no session and no use besides.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow.compat.v1 as tf

from .._errors import KerasLayerError

__all__ = ["detached", "initial_value", "library_of", "make_aside", "make_detached", "make_eagerly"]

# In the graph aside: its variables, each with the function or the tensor that gives its initial value.
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
    """Calls a function that makes a model, in a graph aside, to see what it makes."""
    with tf.Graph().as_default(), _fresh_keras():
        return make()


def make_detached(make: Callable[[], Any]) -> Any:
    """Calls a function that makes a model of Keras 3, whose variables are made in a graph aside."""
    with detached(), tf.name_scope("use_keras"):
        return make()


def make_eagerly(make: Callable[[], Any]) -> Any:
    """Calls a function that makes a model of Keras 3, in eager mode, where Keras loads and sets weights."""
    with tf.compat.v2.__internal__.eager_context.eager_mode(), _fresh_keras():
        return make()


@contextlib.contextmanager
def detached() -> Iterator[None]:
    """Makes the variables of this block in a graph aside, where none of a tower's rules applies to them.

    Keras counts its automatic names from the beginning in this block, as in a new process.
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
    """Returns the function that makes the initial value of a model's variable in any graph.

    Args:
        call: the label of the call, for errors.
        variable: a variable of Keras 3.

    Raises:
        KerasLayerError: the variable is of a graph that this module has not made.
    """
    own = variable.value
    if hasattr(own.handle, "numpy"):
        return lambda: _read_eagerly(own)
    for known, first in own.graph.get_collection(_INITIAL_VALUES):
        if known is own:
            return first if callable(first) else functools.partial(tf.identity, first)
    raise KerasLayerError(
        f"{call}: its variable {variable.path!r} was made in a graph, outside of use_keras. Give use_keras "
        f"the function that makes the model, instead of the model."
    )


@contextlib.contextmanager
def _fresh_keras() -> Iterator[None]:
    """Puts aside, for this block, what Keras keeps for the process, as it has no public way to do so.

    That is the counts of automatic names; and the generator for calls without a seed, which Keras makes in
    whichever graph needs it first.
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
