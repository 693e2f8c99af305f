"""Default arguments for all layers of a kind within a block."""

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

# Frames between a `with` and the code of a context manager.
_TRANSPARENT = (__file__, contextlib.__file__)


@final
class argscope(contextlib.ContextDecorator):
    """Sets default arguments of layers within a `with` block.

    A call's own arguments win over the scope, and an inner scope wins over an outer one. The scope holds
    for this thread (more exactly, this `contextvars` context) alone and ends with the block, also when an
    exception ends the block.

    Args:
        layers: a layer or a sequence of layers.
        **kwargs: arguments that every one of the layers takes.

    Raises:
        NotALayerError: an element of `layers` is no registered layer.
        LayerArgumentError: a layer does not take one of the arguments; or a generator opens the scope, which
            would hold for the caller while the generator waits. The function of a
            `contextlib.contextmanager` may.

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
        """Closes the scope, wherever it is among those that are open."""
        blocks = list(_blocks.get())
        mine = max(index for index, block in enumerate(blocks) if block.scope is self)
        _blocks.set((*blocks[:mine], *blocks[mine + 1 :]))

    @staticmethod
    def explain() -> ScopedCalls:
        """Returns which layers of the current graph took which default arguments, and from where.

        Layers are listed whose calls were made inside of an `argscope` that is for them, each layer of towers
        that share their variables once. Printed, it is a line for each of them, and one for each default.

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
    """A scope that is open, the arguments of its layers, and where it was opened.

    Layers are told apart by themselves and not by their names.
    """

    scope: argscope
    arguments: Mapping[LayerInfo, Mapping[str, Any]]
    path: str
    line: int


# The blocks that are open, the outermost first.
_blocks: ContextVar[tuple[_Block, ...]] = ContextVar("towerpack_layers_argscope", default=())


def get_arg_scope() -> dict[str, dict[str, Any]]:
    """Returns a copy of the default arguments in force here, by layer name.

    A second layer of one name is listed with a prime: `Block'`.

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
    """Returns the default arguments in force here for one layer, each with the place of its scope."""
    defaults: dict[str, tuple[Any, str]] = {}
    for block in _blocks.get():
        if layer in block.arguments:
            place = f"{block.path}:{block.line}"
            defaults.update((name, (value, place)) for name, value in block.arguments[layer].items())
    return defaults


def _opening_frame() -> FrameType:
    """Returns the frame of the function that a scope is being opened in."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename in _TRANSPARENT:
        frame = frame.f_back
    return frame


def _check_no_generator(frame: FrameType) -> None:
    """Checks that no generator opens the scope: it would hold for the caller while the generator waits."""
    if not frame.f_code.co_flags & (inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR):
        return
    driver = frame.f_back
    # The function of a context manager is a generator, too, and means the scope to hold for its caller.
    if driver is None or driver.f_code.co_filename != contextlib.__file__:
        raise LayerArgumentError(
            f"argscope: {frame.f_code.co_name} is a generator, and the scope would hold for its caller "
            f"while it waits. Make it a @contextlib.contextmanager, or open the scope in a function that "
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
                f"received {member!r}. Decorate your own function with @register_layer to make it one."
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
