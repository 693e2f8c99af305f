"""Keras layers and models as functions of a tower's tensors."""

from __future__ import annotations

import contextlib
import inspect
import sys
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, final

import tensorflow.compat.v1 as tf

from .._errors import KerasLayerError
from ..registry import check_graph_mode
from ..tower import in_nested_graph, resolve_training
from ._detached_variables import library_of, make_aside, make_detached, make_eagerly
from ._keras3_call import Keras3Call
from ._tf_keras_call import TfKerasCall

__all__ = ["KerasFunction", "use_keras"]


def use_keras(model: Any) -> KerasFunction:
    """Makes a function of tensors from a Keras layer or model, for use inside a tower function.

    Keras leaves undone in a graph what is not a gradient, and makes variables that no other tower finds. The
    function does what is missing:

    - Variables are made by `tf.get_variable`, as `<model>/<layer>/<variable>`, so they are shared or copied
      as the tower says, and are in `TRAINABLE_VARIABLES`, `GLOBAL_VARIABLES` and `MODEL_VARIABLES`.
    - In training, new values of averages and other states go to `UPDATE_OPS`.
    - Costs of regularizers are in `REGULARIZATION_LOSSES`: those of weights once, with the variable; those of
      outputs, and what `add_loss` adds, in each tower.
    - Random numbers are drawn anew at each step. In a tower with a `random_seed` they depend on seed, step,
      tower and layer alone, so a resumed run draws the same; the layers' own seeds play no part.

    Give the function that makes the model, such as a `def` or a `lambda`. It is called anew for each tower;
    automatic names are counted from the beginning within it, so they do not depend on other models. A
    function that loads or sets weights (`keras.saving.load_model`, `model.load_weights`, `model.set_weights`)
    fails in a graph; it is called once more in eager mode, and what it loads are the initial values. With a
    layer or model of Keras 3 that is made already, all calls share its variables. Its automatic names
    count all layers of the process: name it, and its layers. If it was built in eager mode, its values are
    the initial values here, which is how pretrained weights get in; training leaves the model as it is.

    Args:
        model: a function without arguments that returns a layer or model of Keras 3 or of tf_keras; or a
            layer or model of Keras 3.

    Returns:
        A function of the model's inputs, which are tensors, and of its further arguments by keyword. It
        takes `training=`, by default the tower's `is_training`. Calling it again in one tower shares the
        variables. One tensor as the result is named `<model>/output`.

    Raises:
        KerasLayerError: `model` is none of these; or, when it is called: the model was built in a graph,
            Keras computes by another library than TensorFlow, or a layer does what cannot be adapted.
        ValueError: when it is called: it is in a body of control flow.

    Example:
        >>> import keras
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import TowerContext
        >>> from towerpack_layers.interop import use_keras
        >>> def make():
        ...     return keras.Sequential([keras.layers.Dense(4), keras.layers.Dropout(0.5)], name="net")
        >>> with tf.Graph().as_default(), TowerContext("", is_training=True):
        ...     use_keras(make)(tf.ones([2, 3])).name
        ...     [v.op.name for v in tf.trainable_variables()]
        'net/output:0'
        ['net/dense/kernel', 'net/dense/bias']
    """
    library = library_of(model)
    if library == "tf_keras":
        raise KerasLayerError(
            f"use_keras received {model!r} of tf_keras, which keeps the variables of the first tower. Give "
            f"use_keras the function that makes it."
        )
    if library is None and not callable(model):
        raise KerasLayerError(
            f"use_keras received {model!r}; expected a layer or model of Keras, or a function without "
            f"arguments that makes one."
        )
    if library is None:
        _check_needs_nothing(model)
    return KerasFunction(model)


def _check_needs_nothing(make: Callable[..., Any]) -> None:
    try:
        signature = inspect.signature(make, follow_wrapped=False)
    except (TypeError, ValueError):  # a builtin function has none
        return
    try:
        signature.bind()
    except TypeError:
        called = getattr(make, "__qualname__", repr(make))
        raise KerasLayerError(
            f"use_keras received {called}{signature}, which needs arguments; expected a function without any "
            "that returns a layer or model of Keras, such as lambda: keras.Sequential([...]). Inputs are "
            "given to what use_keras returns."
        ) from None


@final
class KerasFunction:
    """A Keras layer or model as a function of a tower's tensors; `use_keras` makes it."""

    def __init__(self, model: Any) -> None:
        self._model = model
        # The variable scopes of the calls so far: a call in one of these shares their variables.
        self._scopes: weakref.WeakKeyDictionary[tf.Graph, set[str]] = weakref.WeakKeyDictionary()

    def __call__(self, *args: Any, training: bool | None = None, **kwargs: Any) -> Any:
        """Calls the model.

        Args:
            args: the model's inputs: tensors, or lists or dicts of them.
            training: whether the model is called for training; by default the tower's `is_training`.
            kwargs: further arguments of the model.

        Returns:
            What the model returns.

        Raises:
            TowerError: it is outside any tower, and `training` is not given.
            KerasLayerError: the model cannot be adapted.
            ValueError: it is in a body of control flow.
        """
        check_graph_mode("use_keras")
        if in_nested_graph():
            raise ValueError(
                "use_keras: inside tf.cond, tf.while_loop or tf.function, updates of a model's state could "
                "not be run from outside. Call it outside of them."
            )
        call = self._prepare()
        training = resolve_training(call.label, training)
        scopes = self._scopes.setdefault(tf.get_default_graph(), set())
        scope = f"{tf.get_variable_scope().name}/{call.name}"
        with self._sharing(scope in scopes):
            result = call.run(args, kwargs, training)
        scopes.add(scope)
        return result

    def _prepare(self) -> Keras3Call | TfKerasCall:
        """Makes the model anew, unless it is made already or has loaded weights.

        Raises:
            KerasLayerError: the function makes something else than a model.
        """
        if library_of(self._model) == "keras":
            return Keras3Call(self._model)
        # The two kinds of models must be made in different ways.
        if (probe := _of_tf_keras(self._model)) is not None:
            return TfKerasCall(probe.name, self._model)
        make, (model, eagerly) = self._model, _made(self._model)
        library = library_of(model)
        if library == "tf_keras":
            return TfKerasCall(model.name, make)
        if library is None:
            raise KerasLayerError(
                f"use_keras: the function {getattr(make, '__name__', make)!r} returned {model!r}; expected a "
                f"layer or model of Keras 3 or of tf_keras."
            )
        if eagerly:
            self._model = model  # all towers begin with the same values, also of layers that loaded none
        return Keras3Call(model)

    def _sharing(self, again: bool) -> AbstractContextManager[Any]:
        if not again:
            return contextlib.nullcontext()
        scope: AbstractContextManager[Any] = tf.variable_scope(
            tf.get_variable_scope(), reuse=True, auxiliary_name_scope=False
        )
        return scope


def _made(make: Callable[[], Any]) -> tuple[Any, bool]:
    """Makes a model by the user's function; returns it, and whether that was in eager mode.

    Keras reads files of weights and sets weights in eager mode alone; variables that it makes in the graph
    have initial values that follow from the seed.

    Raises:
        Exception: what the function raises in eager mode; the cause is what it raised in the graph.
    """
    try:
        return make_detached(make), False
    except Exception as error:
        try:
            return make_eagerly(make), True
        except Exception as its_own:
            raise its_own from error


def _of_tf_keras(make: Callable[[], Any]) -> Any:
    """Returns a model if the function makes one of tf_keras, in a graph of its own."""
    if "tf_keras" not in sys.modules:
        return None
    try:
        probe = make_aside(make)
    except Exception:  # one of Keras 3 that loads weights
        return None
    return probe if library_of(probe) == "tf_keras" else None
