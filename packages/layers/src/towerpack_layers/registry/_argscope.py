"""Default arguments for all layers of a kind within a block."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

from .._errors import LayerArgumentError, NotALayerError
from ._layer_info import LayerInfo, layer_info

__all__ = ["argscope", "get_arg_scope", "scoped_arguments"]

_Scope = Mapping[str, Mapping[str, Any]]

# The mapping is replaced, never changed: at the end of a block, the very object from before is put back.
_scope: ContextVar[_Scope] = ContextVar("towerpack_layers_argscope", default=MappingProxyType({}))


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
        LayerArgumentError: a layer does not take one of the arguments.

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
    token = _scope.set(_extend(_scope.get(), infos, kwargs))
    try:
        yield
    finally:
        _scope.reset(token)


def get_arg_scope() -> dict[str, dict[str, Any]]:
    """Returns a copy of the default arguments in force here, by layer name.

    Example:
        >>> from towerpack_layers import Conv2D, argscope, get_arg_scope
        >>> with argscope(Conv2D, filters=8):
        ...     get_arg_scope()
        {'Conv2D': {'filters': 8}}
        >>> get_arg_scope()
        {}
    """
    return {layer: dict(arguments) for layer, arguments in _scope.get().items()}


def scoped_arguments(layer: str) -> Mapping[str, Any]:
    """Returns the default arguments in force here for one layer."""
    return _scope.get().get(layer, {})


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


def _extend(scope: _Scope, infos: Sequence[LayerInfo], kwargs: Mapping[str, Any]) -> _Scope:
    return {**scope, **{info.name: {**scope.get(info.name, {}), **kwargs} for info in infos}}
