"""Default arguments of layers within a block."""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from types import FrameType
from typing import Any, final

import attrs

from .._errors import LayerArgumentError, NotALayerError
from ._layer_info import LayerInfo, layer_info
from ._old_spellings import modern_arguments
from ._scoped_calls import ScopedCalls, noted_calls

__all__ = ["argscope", "get_arg_scope", "scoped_defaults"]

# The frames between a `with` statement and the code of a context manager.
_TRANSPARENT = (__file__, contextlib.__file__)


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
        frame = _opening_frame()
        _check_no_generator(frame)
        _blocks.set((*_blocks.get(), _Block(self, self._arguments, frame.f_code.co_filename, frame.f_lineno)))

    def __exit__(self, *_exception: object) -> None:
        """Closes the scope, at any position among the open scopes."""
        blocks = list(_blocks.get())
        mine = max(index for index, block in enumerate(blocks) if block.scope is self)
        _blocks.set((*blocks[:mine], *blocks[mine + 1 :]))

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


@final
@attrs.frozen(eq=False)
class _Block:
    """An open scope, the arguments of its layers, and the place where it was opened.

    Layers are identified by object, not by name.
    """

    scope: argscope
    arguments: Mapping[LayerInfo, Mapping[str, Any]]
    path: str
    line: int


# The open blocks, the outermost first.
_blocks: ContextVar[tuple[_Block, ...]] = ContextVar("towerpack_layers_argscope", default=())


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
    infos = dict.fromkeys(info for block in _blocks.get() for info in block.arguments)
    found: dict[str, dict[str, Any]] = {}
    for info in infos:
        name = info.name
        while name in found:
            name += "'"
        found[name] = {argument: value for argument, (value, _) in scoped_defaults(info).items()}
    return found


def scoped_defaults(layer: LayerInfo) -> dict[str, tuple[Any, str]]:
    """Returns the current default arguments of one layer, each with the place of its scope."""
    defaults: dict[str, tuple[Any, str]] = {}
    for block in _blocks.get():
        if layer in block.arguments:
            place = f"{block.path}:{block.line}"
            defaults.update((name, (value, place)) for name, value in block.arguments[layer].items())
    return defaults


def _opening_frame() -> FrameType:
    """Returns the frame of the function that opens a scope."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename in _TRANSPARENT:
        frame = frame.f_back
    return frame


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
            "that "
            f"it calls."
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
