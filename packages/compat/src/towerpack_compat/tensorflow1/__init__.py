"""TensorFlow 1's interface over TensorFlow 2: `tf.compat.v1` with `layers`, `contrib` and `keras`."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import types
from collections.abc import Sequence
from typing import Any

from .._errors import InstallError

__all__ = ["import_for_user", "tensorflow"]


@functools.cache
def tensorflow() -> types.ModuleType:
    """Returns TensorFlow 1's interface, and disables eager execution, which TensorFlow 1 did not have.

    Raises:
        InstallError: TensorFlow is not installed.
    """
    # TensorFlow reads the variable when it imports Keras.
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
    try:
        real = importlib.import_module("tensorflow")
    except ModuleNotFoundError as error:
        raise InstallError(
            "The program imports tensorflow, which is not installed. Run "
            '`pip install "towerpack-compat[full]"`.'
        ) from error
    real.compat.v1.disable_eager_execution()
    _accept_whole_floats(real.compat.v1.Dimension)
    _add_values_to_sizes(real.TensorShape)
    importlib.import_module("towerpack_compat.tensorflow1._variables").use_values_of_variables()
    return importlib.import_module("towerpack_compat.tensorflow1.api")


def _accept_whole_floats(dimension: Any) -> None:
    """Makes a dimension of a float without a fraction, such as `channels / 2`, as TensorFlow 1 does."""
    before = dimension.__init__

    @functools.wraps(before)
    def __init__(self: Any, value: Any) -> None:
        before(self, int(value) if isinstance(value, float) and value.is_integer() else value)

    dimension.__init__ = __init__


class _Size(int):
    """A size in a shape, with the attribute `value` that TensorFlow 1's sizes have."""

    value = property(int)


def _add_values_to_sizes(shape: Any) -> None:
    """Makes `tensor.shape[1].value` work, and leaves sizes integers, as libraries expect them."""
    item, iterate = shape.__getitem__, shape.__iter__

    def sized(found: Any) -> Any:
        return _Size(found) if type(found) is int else found

    shape.__getitem__ = lambda self, key: sized(item(self, key))
    shape.__iter__ = lambda self: map(sized, iterate(self))


def import_for_user(name: str, fromlist: Sequence[str]) -> Any:
    """Imports `tensorflow` or one of its modules, like `__import__`.

    Args:
        name: the module, such as "tensorflow.contrib.slim".
        fromlist: the names after `from ... import`; empty for `import ...`.

    Raises:
        ImportError: the module does not exist.
    """
    found: Any = tensorflow()
    for part in name.split(".")[1:]:
        try:
            found = _part(found, part)
        except (AttributeError, ModuleNotFoundError):
            raise ImportError(f"TensorFlow has no module {name!r}.", name=name) from None
    for part in fromlist if isinstance(found, types.ModuleType) else ():
        with contextlib.suppress(AttributeError, ModuleNotFoundError):
            _part(found, part)
    return found if fromlist else tensorflow()


def _part(found: Any, name: str) -> Any:
    """Returns a name of a module, or a submodule that is not imported yet."""
    if not hasattr(found, name) and isinstance(found, types.ModuleType):
        return importlib.import_module(f"{found.__name__}.{name}")
    return getattr(found, name)
