"""Chains of layers, written as chains of method calls."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

from .._errors import DuplicateRegistrationError, UnknownLayerError
from ._register_layer import REGISTRY

__all__ = ["LinearWrap"]


@final
@attrs.frozen(eq=False, repr=False)
class LinearWrap:
    """A tensor with layers as methods, for linear networks.

    Every registered layer is a method that takes the layer's arguments without the input and returns a new
    wrap. `wrap()` returns the tensor. The parentheses around a chain only allow line breaks.

    Args:
        tensor: the tensor to start from.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import LinearWrap
        >>> with tf.Graph().as_default():
        ...     logits = (
        ...         LinearWrap(tf.ones([1, 8, 8, 1]))
        ...         .Conv2D("conv0", 4, 3)
        ...         .tf.nn.relu()
        ...         .MaxPooling("pool0", 2)
        ...         .apply(tf.reshape, [1, -1])
        ...         .FullyConnected("fc0", 10)()
        ...     )
        >>> logits.name, logits.shape
        ('fc0/output:0', TensorShape([1, 10]))
    """

    _tensor: Any

    def __getattr__(self, layer: str) -> Callable[..., LinearWrap]:
        """Returns a registered layer as a method of this tensor.

        Raises:
            UnknownLayerError: no layer has this name.
        """
        try:
            function = REGISTRY.get(layer)
        except DuplicateRegistrationError as error:
            raise UnknownLayerError(str(error)) from None
        if function is None:
            # Copying, pickling and notebooks look up such names, also on partly initialised objects.
            if layer.startswith("_"):
                raise AttributeError(f"'LinearWrap' object has no attribute {layer!r}")
            raise UnknownLayerError(_unknown(layer))

        def call(*args: Any, **kwargs: Any) -> LinearWrap:
            if args and isinstance(args[0], str):
                return LinearWrap(function(args[0], self._tensor, *args[1:], **kwargs))
            return LinearWrap(function(self._tensor, *args, **kwargs))

        return call

    def __dir__(self) -> list[str]:
        """Lists the methods and the layers, for completion."""
        return sorted({*object.__dir__(self), *REGISTRY.names()})

    def __repr__(self) -> str:
        """Returns the wrap as text, with the tensor's description."""
        return f"LinearWrap({self._tensor!r})"

    def __call__(self) -> Any:
        """Returns the tensor."""
        return self._tensor

    def tensor(self) -> Any:
        """Returns the tensor."""
        return self._tensor

    def apply(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> LinearWrap:
        """Returns the wrap of `function(tensor, *args, **kwargs)`."""
        return LinearWrap(function(self._tensor, *args, **kwargs))

    def apply2(self, function: Callable[..., Any], first: Any, *args: Any, **kwargs: Any) -> LinearWrap:
        """Returns the wrap of `function(first, tensor, *args, **kwargs)`."""
        return LinearWrap(function(first, self._tensor, *args, **kwargs))

    def print_tensor(self) -> LinearWrap:
        """Prints the tensor's description (not its values) and returns the wrap."""
        print(self._tensor)
        return self

    @property
    def tf(self) -> _Module:
        """The functions of `tf.compat.v1` as methods of this tensor: `wrap.tf.nn.relu()`."""
        return _Module(self, tf)


@final
@attrs.frozen(eq=False)
class _Module:
    """A module with functions that are called on the wrapped tensor."""

    _wrap: LinearWrap
    _module: Any

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"'LinearWrap.tf' has no attribute {name!r}")
        member = getattr(self._module, name)
        if isinstance(member, ModuleType):
            return _Module(self._wrap, member)

        def call(*args: Any, **kwargs: Any) -> LinearWrap:
            return self._wrap.apply(member, *args, **kwargs)

        return call


def _unknown(layer: str) -> str:
    similar = REGISTRY.similar(layer)
    hint = f"Did you mean {' or '.join(similar)}? " if similar else ""
    return (
        f"LinearWrap finds no layer {layer!r}. {hint}Registered layers: {', '.join(REGISTRY.names())}. "
        "Decorate a function with @register_layer to add it, or use .apply(function, ...) for any function."
    )
