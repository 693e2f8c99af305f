"""`tensorpack.models`: Tensorpack's rules for names of layers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from towerpack_layers import register_layer
from towerpack_layers.registry import REGISTRY, repeating_names
from towerpack_layers.tower import adapting_keras

from ..names import counterparts

__all__ = ["layer_register", "tensorpack_rules"]


@contextlib.contextmanager
def tensorpack_rules() -> Iterator[None]:
    """Builds layers by Tensorpack's rules: names may repeat, and the state of Keras layers is not checked."""
    with adapting_keras(), repeating_names():
        yield


def layer_register(log_shape: bool = False, use_scope: bool | None = True) -> Callable[[Any], Any]:
    """Returns a decorator that makes a function a layer.

    A function may have the name of a layer that Tensorpack does not have, such as `GroupNorm`.

    Args:
        log_shape: whether to log the shapes of input and output.
        use_scope: whether the layer takes a name; None: the name is optional.
    """

    def register(function: Any) -> Any:
        if function.__name__ not in counterparts():
            REGISTRY.forget(function.__name__)
        options: Any = {"log_shape": log_shape, "use_scope": use_scope}
        return register_layer(**options)(function)

    return register
