"""Support of `argscope` for layer functions of other libraries."""

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
    """Returns a wrapper of a function that takes the defaults of an `argscope`.

    The given function is unchanged; open scopes for the returned one. It has the same call signature: no name
    precedes the input, and no variable scope is opened.

    Args:
        func: a layer of another library, a function with the input as its first parameter. A function that
            already supports `argscope` is returned unchanged.
        log_shape: log the shapes of input and output, once per graph and output.

    Raises:
        NotALayerError: `func` is a class, not a function, or has no parameter for an input.

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
            "enable_argscope_for_function needs a function with a layer's input as its first parameter, "
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
    """Replaces the public functions of a module by wrappers that take the defaults of an `argscope`.

    It changes the module for the whole process, until the returned object is closed: use
    `with enable_argscope_for_module(slim):` or `.close()`. It affects only lookups in this module:
    `slim.conv2d`, but not a `conv2d` that was imported earlier. A second call has no effect.

    Args:
        module: the module, such as `tf_slim`.
        log_shape: log the shapes of input and output.

    Returns:
        A context manager that restores the functions.

    Raises:
        NotALayerError: `module` is not a module.

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
    # Keep a function that other code has replaced since then.
    if getattr(module, name, None) is replacement:
        setattr(module, name, original)


def _has_input(function: Any) -> bool:
    """Returns whether an object is a function with a parameter for an input."""
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
    """Returns the layer name given in a call, or else the name of the returned op."""
    given = kwargs.get("name") or kwargs.get("scope")
    if isinstance(given, str):
        around = tf.get_variable_scope().name
        return f"{around}/{given}" if around else given
    output = result[0] if isinstance(result, tuple) and result else result
    return str(output.op.name) if _is_symbolic(output) else info.name


def _is_symbolic(value: Any) -> bool:
    return tf.is_tensor(value) and not tf.executing_eagerly() and hasattr(value, "op")
