"""Calls of layers with the default arguments of a block, also for other libraries, and their record."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from types import FrameType, ModuleType
from typing import Any, cast, final

import attrs
import tensorflow.compat.v1 as tf

from .._errors import LayerArgumentError, NotALayerError
from ..tower._tower_context import graph_notes
from ._layer_info import (
    OPEN_BLOCKS,
    Layer,
    LayerInfo,
    ScopeBlock,
    layer_info,
    modern_arguments,
    scoped_defaults,
    user_frame,
)
from ._layer_scope import (
    log_shapes,
)

__all__ = [
    "ScopedCall",
    "ScopedCalls",
    "ScopedDefault",
    "argscope",
    "enable_argscope_for_function",
    "enable_argscope_for_module",
    "get_arg_scope",
    "note_call",
]


_PLAIN = (bool, int, float, complex, str, bytes, type(None))


@final
@attrs.frozen
class ScopedDefault:
    """A default argument of an argument scope for a call.

    Args:
        argument: its name.
        value: its value, as text.
        place: file and line of the `with argscope(...)`.
        is_used: whether the call used it; an explicit argument of the call overrides it.
    """

    argument: str
    value: str
    place: str
    is_used: bool

    def __str__(self) -> str:
        """Returns the default as one line."""
        own = "" if self.is_used else ", not used: overridden by the call"
        return f"{self.argument}={self.value}  ({self.place}{own})"


@final
@attrs.frozen
class ScopedCall:
    """A layer built inside of argument scopes.

    Args:
        layer: the kind of layer.
        scope: the variable scope of the layer; for a layer without a name, the enclosing one.
        defaults: the defaults of the argument scopes for it.
    """

    layer: str
    scope: str
    defaults: Sequence[ScopedDefault]


@final
@attrs.frozen(repr=False)
class ScopedCalls:
    """The layers of a graph built inside of argument scopes; the result of `argscope.explain()`.

    Args:
        calls: one element per layer, in the order of construction.
    """

    calls: Sequence[ScopedCall]

    def __repr__(self) -> str:
        """Returns a line for each layer, followed by a line for each of its defaults."""
        lines = []
        for call in self.calls:
            lines.append(f"{call.layer}({call.scope!r})")
            lines.extend(f"    {default}" for default in call.defaults)
        return "\n".join(lines) or "No layer of this graph was built inside of an argscope."


def note_call(
    layer: str, scope: str, defaults: Mapping[str, tuple[Any, str]], taken: Mapping[str, Any]
) -> None:
    """Records the argument scopes' defaults for a call, in this graph.

    Values are stored as text, since tensors would keep the graph alive.

    Args:
        layer: the kind of layer.
        scope: its variable scope.
        defaults: value and place of each default for the call.
        taken: the final keyword arguments of the call.
    """
    noted = graph_notes().scoped_calls
    key = f"{layer} {scope}"
    if key not in noted:
        noted[key] = ScopedCall(
            layer,
            scope,
            tuple(
                ScopedDefault(argument, _text(value), place, taken.get(argument, noted) is value)
                for argument, (value, place) in defaults.items()
            ),
        )


def noted_calls() -> ScopedCalls:
    """Returns the recorded calls of the current graph."""
    return ScopedCalls(tuple(graph_notes().scoped_calls.values()))


def _text(value: Any) -> str:
    if isinstance(value, _PLAIN):
        return repr(value)
    if type(value) in {list, tuple} and len(value) <= 8:
        inside = ", ".join(map(_text, value))
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    if callable(value) and isinstance(getattr(value, "__qualname__", None), str):
        return str(value.__qualname__)
    if tf.is_tensor(value):
        return f"<tensor {getattr(value, 'name', '')} of shape {value.shape}>"
    return f"<{type(value).__name__}>"


@final
class argscope(contextlib.ContextDecorator):
    """Sets default arguments of layers within a `with` block.

    Explicit arguments of a call override the scope, and an inner scope overrides an outer one. The scope
    applies only to this thread (precisely, this `contextvars` context) and ends with the block, also after an
    exception.

    Args:
        layers: a layer or a sequence of layers.
        **kwargs: arguments that all of the layers take.

    Raises:
        NotALayerError: an element of `layers` is not a registered layer.
        LayerArgumentError: a layer does not take one of the arguments; or a generator opens the scope, which
            would apply to the caller while the generator is suspended. The function of a
            `contextlib.contextmanager` may open one.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import Conv2D, argscope
        >>> with tf.Graph().as_default(), argscope(Conv2D, filters=8, kernel_size=3, activation=tf.nn.relu):
        ...     x = Conv2D("conv0", tf.ones([1, 6, 6, 1]))
        ...     Conv2D("conv1", x, kernel_size=1).variables.W.shape
        TensorShape([1, 1, 8, 8])
    """

    def __init__(self, layers: Callable[..., Any] | Sequence[Callable[..., Any]], **kwargs: Any) -> None:
        self._arguments: dict[LayerInfo, Mapping[str, Any]] = {}
        for info in _layer_infos(layers):
            self._arguments[info] = modern_arguments(f"argscope of {info.name}", info, kwargs)
            _check_arguments(info, self._arguments[info])

    def __enter__(self) -> None:
        """Opens the scope.

        Raises:
            LayerArgumentError: a generator opens it.
        """
        frame, _ = user_frame()
        _check_no_generator(frame)
        OPEN_BLOCKS.set(
            (*OPEN_BLOCKS.get(), ScopeBlock(self, self._arguments, frame.f_code.co_filename, frame.f_lineno))
        )

    def __exit__(self, *_exception: object) -> None:
        """Closes the scope, at any position among the open scopes."""
        blocks = list(OPEN_BLOCKS.get())
        mine = max(index for index, block in enumerate(blocks) if block.scope is self)
        OPEN_BLOCKS.set((*blocks[:mine], *blocks[mine + 1 :]))

    @staticmethod
    def explain() -> ScopedCalls:
        """Returns the default arguments of layers in the current graph, with their origins.

        The list contains all layers that were called inside of an `argscope` for them; a layer of several
        towers that share variables is listed once. As text, it has a line for each layer and for each
        default.

        Example:
            >>> import tensorflow.compat.v1 as tf
            >>> from towerpack_layers import FullyConnected, argscope
            >>> with tf.Graph().as_default(), argscope(FullyConnected, use_bias=False, activation=tf.nn.relu):
            ...     x = FullyConnected("fc0", tf.ones([1, 2]), 3, activation=None)
            ...     [call] = argscope.explain().calls
            >>> call.layer, call.scope, [(d.argument, d.value, d.is_used) for d in call.defaults]
            ('FullyConnected', 'fc0', [('use_bias', 'False', True), ('activation', 'relu', False)])
        """
        return noted_calls()


def get_arg_scope() -> dict[str, dict[str, Any]]:
    """Returns a copy of the current default arguments, by layer name.

    A second layer with the same name is listed with a prime: `Block'`.

    Example:
        >>> from towerpack_layers import Conv2D, argscope, get_arg_scope
        >>> with argscope(Conv2D, filters=8):
        ...     get_arg_scope()
        {'Conv2D': {'filters': 8}}
        >>> get_arg_scope()
        {}
    """
    infos = dict.fromkeys(info for block in OPEN_BLOCKS.get() for info in block.arguments)
    found: dict[str, dict[str, Any]] = {}
    for info in infos:
        name = info.name
        while name in found:
            name += "'"
        found[name] = {argument: value for argument, (value, _) in scoped_defaults(info).items()}
    return found


def _check_no_generator(frame: FrameType) -> None:
    """Refuses a generator that opens the scope, which would apply to its caller while it is suspended."""
    if not frame.f_code.co_flags & (inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR):
        return
    driver = frame.f_back
    # The function of a context manager is also a generator, but intends the scope for its caller.
    if driver is None or driver.f_code.co_filename != contextlib.__file__:
        raise LayerArgumentError(
            f"argscope: {frame.f_code.co_name} is a generator, and the scope would apply to its caller "
            "while it is suspended. Make it a @contextlib.contextmanager, or open the scope in a function "
            "that it calls."
        )


def _layer_infos(layers: Callable[..., Any] | Sequence[Callable[..., Any]]) -> list[LayerInfo]:
    members = [layers] if callable(layers) or not isinstance(layers, Sequence) else layers
    infos = []
    for member in members:
        info = layer_info(member)
        if info is None:
            raise NotALayerError(
                f"argscope needs a registered layer or a list of them, such as argscope(Conv2D, ...); "
                f"received {member!r}. Decorate a function with @register_layer to make it a layer."
            )
        infos.append(info)
    return infos


def _check_arguments(info: LayerInfo, kwargs: Mapping[str, Any]) -> None:
    for argument in kwargs:
        if not info.takes(argument):
            raise LayerArgumentError(
                f"argscope: {info.name} does not take {argument!r}. {info.hint(argument)}It takes: "
                f"{', '.join(info.arguments)}."
            )


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
