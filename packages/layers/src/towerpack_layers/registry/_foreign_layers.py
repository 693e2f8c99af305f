"""Layer functions of other libraries, made to take the defaults of an `argscope`."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any, cast

import tensorflow.compat.v1 as tf

from .._errors import NotALayerError
from ._argscope import scoped_defaults
from ._layer_info import Layer, LayerInfo, layer_info
from ._layer_logging import log_shapes
from ._scoped_calls import note_call

__all__ = ["enable_argscope_for_function", "enable_argscope_for_module"]


def enable_argscope_for_function(func: Callable[..., Any], log_shape: bool = True) -> Layer[..., Any]:
    """Returns a function that takes the defaults of an `argscope`, and is otherwise the one given.

    The function that is given stays as it is; scopes are opened for the one that is returned. It is called
    as before: no name comes before its input, and no variable scope is opened.

    Args:
        func: a layer of another library, a function whose first parameter is the input. One that takes
            `argscope` already is returned as it is.
        log_shape: log the shapes of input and output, once per graph and output.

    Raises:
        NotALayerError: `func` is a class or no function, or it has no parameter for an input.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import argscope, enable_argscope_for_function
        >>> max_pool = enable_argscope_for_function(tf.nn.max_pool2d)
        >>> with tf.Graph().as_default(), argscope(max_pool, ksize=2, strides=2, padding="SAME"):
        ...     max_pool(tf.ones([1, 8, 8, 3])).shape, max_pool(tf.ones([1, 8, 8, 3]), strides=4).shape
        (TensorShape([1, 4, 4, 3]), TensorShape([1, 2, 2, 3]))
    """
    if layer_info(func) is not None:
        return cast(Layer[..., Any], func)
    if not _has_input(func):
        raise NotALayerError(
            f"enable_argscope_for_function needs a function whose first parameter is a layer's input, "
            f"received {func!r}. Write a function that calls it."
        )
    info = LayerInfo(func.__name__, func, log_shape, use_scope=False)

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        defaults = scoped_defaults(info)
        own = info.given(args, kwargs)
        taken = {name: value for name, (value, _) in defaults.items() if name not in own}
        result = func(*args, **taken, **kwargs)
        _tell(info, args, kwargs, result)
        if defaults and not tf.executing_eagerly():
            note_call(info.name, _label(info, kwargs, result), defaults, taken)
        return result

    layer = cast(Layer[..., Any], call)
    layer.layer_name, layer.layer_info = info.name, info
    return layer


def enable_argscope_for_module(module: ModuleType, log_shape: bool = True) -> contextlib.ExitStack:
    """Replaces the public functions of a module by ones that take the defaults of an `argscope`.

    It changes the module for all of the process, until what it returns is closed: either
    `with enable_argscope_for_module(slim):`, or `.close()`. Only names that are looked up in this module are
    affected: `slim.conv2d`, and not a `conv2d` that was imported before. A second call changes nothing.

    Args:
        module: the module, such as `tf_slim`.
        log_shape: log the shapes of input and output.

    Returns:
        What puts the functions back.

    Raises:
        NotALayerError: `module` is no module.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from types import ModuleType
        >>> from towerpack_layers import argscope, enable_argscope_for_module
        >>> library = ModuleType("library")
        >>> library.add = lambda x, number=1: x + number
        >>> with tf.Graph().as_default(), tf.Session() as session, enable_argscope_for_module(library):
        ...     with argscope(library.add, number=10):
        ...         print(session.run(library.add(tf.ones([]))))
        11.0
    """
    if not isinstance(module, ModuleType):
        raise NotALayerError(f"enable_argscope_for_module needs a module, received {module!r}.")
    end = contextlib.ExitStack()
    for name, member in inspect.getmembers(module, inspect.isfunction):
        if not name.startswith("_") and layer_info(member) is None and _has_input(member):
            replacement = enable_argscope_for_function(member, log_shape)
            setattr(module, name, replacement)
            end.callback(_put_back, module, name, replacement, member)
    return end


def _put_back(module: ModuleType, name: str, replacement: Any, original: Any) -> None:
    # Whoever has replaced the function again since then keeps the last word.
    if getattr(module, name, None) is replacement:
        setattr(module, name, original)


def _has_input(function: Any) -> bool:
    """Returns whether something is a function that has a parameter for an input."""
    if not callable(function) or isinstance(function, type) or not hasattr(function, "__name__"):
        return False
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return False
    return bool(parameters) and parameters[0].kind is not inspect.Parameter.KEYWORD_ONLY


def _tell(info: LayerInfo, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
    inputs = args[0] if args else kwargs.get(next(iter(info.signature.parameters)))
    output = result[0] if isinstance(result, tuple) and result else result
    if info.log_shape and tf.is_tensor(inputs) and _is_symbolic(output):
        log_shapes(_label(info, kwargs, result), inputs, output)


def _label(info: LayerInfo, kwargs: dict[str, Any], result: Any) -> str:
    """Returns the name that a call gives its layer, or else that of the op that it returns."""
    given = kwargs.get("name") or kwargs.get("scope")
    if isinstance(given, str):
        around = tf.get_variable_scope().name
        return f"{around}/{given}" if around else given
    output = result[0] if isinstance(result, tuple) and result else result
    return str(output.op.name) if _is_symbolic(output) else info.name


def _is_symbolic(value: Any) -> bool:
    return tf.is_tensor(value) and not tf.executing_eagerly() and hasattr(value, "op")
