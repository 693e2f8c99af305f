"""Default arguments for all layers of a kind within a block."""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, final

import attrs

from .._errors import LayerArgumentError, NotALayerError
from ._layer_info import LayerInfo, layer_info

__all__ = ["argscope", "get_arg_scope", "scoped_arguments"]

# Frames between a `with` and the code of a context manager.
_TRANSPARENT = (__file__, contextlib.__file__)


@final
@attrs.frozen(eq=False)
class _Block:
    """One `with argscope(...)`: its layers, by themselves and not by their names, and its arguments."""

    layers: Sequence[LayerInfo]
    arguments: Mapping[str, Any]


# The blocks that are open, the outermost first. A block that ends takes itself away, wherever it is.
_blocks: ContextVar[tuple[_Block, ...]] = ContextVar("towerpack_layers_argscope", default=())


@contextlib.contextmanager
def argscope(layers: Callable[..., Any] | Sequence[Callable[..., Any]], **kwargs: Any) -> Iterator[None]:
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
    infos = _layer_infos(layers)
    for info in infos:
        _check_arguments(info, kwargs)
    _check_no_generator()
    block = _Block(infos, kwargs)
    _blocks.set((*_blocks.get(), block))
    try:
        yield
    finally:
        _blocks.set(tuple(other for other in _blocks.get() if other is not block))


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
    infos = {id(info): info for block in _blocks.get() for info in block.layers}
    found: dict[str, dict[str, Any]] = {}
    for info in infos.values():
        name = info.name
        while name in found:
            name += "'"
        found[name] = dict(scoped_arguments(info))
    return found


def scoped_arguments(layer: LayerInfo) -> Mapping[str, Any]:
    """Returns the default arguments in force here for one layer."""
    arguments: dict[str, Any] = {}
    for block in _blocks.get():
        if any(info is layer for info in block.layers):
            arguments.update(block.arguments)
    return arguments


def _check_no_generator() -> None:
    """Checks that no generator opens the scope: it would hold for the caller while the generator waits."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename in _TRANSPARENT:
        frame = frame.f_back
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
                f"argscope: {info.name} does not take {argument!r}. It takes: {', '.join(info.arguments)}."
            )
