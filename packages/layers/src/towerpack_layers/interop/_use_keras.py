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
from ..registry._layer_scope import check_graph_mode
from ..tower._tower_context import in_nested_graph, resolve_training
from ._keras_calls import Keras3Call, TfKerasCall, library_of, make_aside, make_detached, make_eagerly

__all__ = ["KerasFunction", "use_keras"]


def use_keras(model: Any) -> KerasFunction:
    """Makes a function of tensors from a Keras layer or model, for use inside a tower function.

    In a graph, Keras handles only gradients, and creates variables that other towers do not find. The
    function adds the missing parts:

    - `tf.get_variable` creates variables as `<model>/<layer>/<variable>`, so they are shared or copied
      according to the tower, and are in `TRAINABLE_VARIABLES`, `GLOBAL_VARIABLES` and `MODEL_VARIABLES`.
    - In training, new values of averages and other states go to `UPDATE_OPS`.
    - Costs of regularizers are in `REGULARIZATION_LOSSES`: costs of weights once, with the variable; costs of
      outputs and of `add_loss` in each tower.
    - Random numbers differ at each step. In a tower with a `random_seed` they depend only on seed, step,
      tower and layer, so a resumed run repeats them; the layers' own seeds are not used. Initial values
      depend on that seed, too, unless `keras.utils.set_random_seed` was called.

    Pass the function that makes the model, such as a `def` or a `lambda`. It is called once for each tower;
    automatic names restart in it, so they do not depend on other models. A function that loads or sets
    weights (`keras.saving.load_model`, `model.load_weights`, `model.set_weights`) fails in a graph; it is
    called again in eager mode, and the loaded weights become the initial values. If you pass an existing
    layer or model of Keras 3, all calls share its variables. Its automatic names count all layers of the
    process: give names to the model and its layers. If it was built in eager mode, its values become the
    initial values, for example pretrained weights; training does not change the model object.

    Args:
        model: a function without arguments that returns a layer or model of Keras 3 or of tf_keras; or a
            layer or model of Keras 3.

    Returns:
        A function of the model's inputs, as tensors, and of further keyword arguments. It takes `training=`,
        by default the tower's `is_training`. Further calls in one tower share the variables. A result that is
        a single tensor is named `<model>/output`.

    Raises:
        KerasLayerError: `model` is not one of these; or, when the function is called: the model was built in
            a graph, Keras uses a backend other than TensorFlow, or a layer cannot be adapted.
        ValueError: when the function is called: the call is inside a body of control flow.

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
            f"use_keras received {model!r} of tf_keras, which would keep the variables of the first tower. "
            "Pass use_keras the function that makes it."
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
    except (TypeError, ValueError):  # a builtin function has no signature
        return
    try:
        signature.bind()
    except TypeError:
        called = getattr(make, "__qualname__", repr(make))
        raise KerasLayerError(
            f"use_keras received {called}{signature}, which needs arguments; expected a function without any "
            "that returns a layer or model of Keras, such as lambda: keras.Sequential([...]). Pass inputs "
            "to the function that use_keras returns."
        ) from None


@final
class KerasFunction:
    """A Keras layer or model as a function of a tower's tensors; `use_keras` makes it.

    Example:
        >>> import keras
        >>> from towerpack_layers import TowerContext
        >>> from towerpack_layers.interop import use_keras
        >>> dense = use_keras(lambda: keras.layers.Dense(4, name="dense"))  # a KerasFunction
        >>> with tf.Graph().as_default(), TowerContext("", is_training=True):
        ...     dense(tf.ones([2, 3])).shape.as_list()
        [2, 4]
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        # The variable scopes of earlier calls: a call in one of these shares their variables.
        self._scopes: weakref.WeakKeyDictionary[tf.Graph, set[str]] = weakref.WeakKeyDictionary()

    def __call__(self, *args: Any, training: bool | None = None, **kwargs: Any) -> Any:
        """Calls the model.

        Args:
            args: the model's inputs: tensors, or lists or dicts of them.
            training: whether to call the model in training mode; by default the tower's `is_training`.
            kwargs: further arguments of the model.

        Returns:
            The result of the model.

        Raises:
            TowerError: the call is outside any tower, and `training` is not given.
            KerasLayerError: the model cannot be adapted.
            ValueError: it is in a body of control flow.
        """
        check_graph_mode("use_keras")
        if in_nested_graph():
            raise ValueError(
                "use_keras: inside tf.cond, tf.while_loop or tf.function, updates of a model's state cannot "
                "be run from outside. Call it outside of them."
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
        """Makes a new model, unless it already exists or has loaded weights.

        Raises:
            KerasLayerError: the function does not return a model.
        """
        if library_of(self._model) == "keras":
            return Keras3Call(self._model)
        # The two kinds of models must be made differently.
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
            self._model = (
                model  # all towers start with the same values, also for layers without loaded weights
            )
        return Keras3Call(model)

    def _sharing(self, again: bool) -> AbstractContextManager[Any]:
        if not again:
            return contextlib.nullcontext()
        scope: AbstractContextManager[Any] = tf.variable_scope(
            tf.get_variable_scope(), reuse=True, auxiliary_name_scope=False
        )
        return scope


def _made(make: Callable[[], Any]) -> tuple[Any, bool]:
    """Makes a model by the user's function; returns it, and whether it was made in eager mode.

    Keras loads and sets weights only in eager mode; variables created in the graph have initial values that
    follow from the seed.

    Raises:
        Exception: the error of the function in eager mode; its cause is the error in the graph.
    """
    try:
        return make_detached(make), False
    except Exception as error:
        try:
            return make_eagerly(make), True
        except Exception as its_own:
            raise its_own from error


def _of_tf_keras(make: Callable[[], Any]) -> Any:
    """Returns the model if the function makes one of tf_keras, in a separate graph."""
    if "tf_keras" not in sys.modules:
        return None
    try:
        probe = make_aside(make)
    except Exception:  # one of Keras 3 that loads weights
        return None
    return probe if library_of(probe) == "tf_keras" else None
