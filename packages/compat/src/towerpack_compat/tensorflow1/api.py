"""The module that `import tensorflow as tf` imports in a program of TensorFlow 1.

Its names are those of `tf.compat.v1`, plus TensorFlow 1's `contrib`, `keras` and `layers`.
"""

from __future__ import annotations

import importlib
import types
from typing import Any

from .._dry_run import dry_run_steps
from .._errors import NoCounterpartError, page

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    real = importlib.import_module("tensorflow")
    if name in ("__version__", "compat"):
        return getattr(real, name)
    if name.startswith("__"):
        raise AttributeError(name)
    if name == "contrib":
        return importlib.import_module("towerpack_compat.tensorflow1.contrib")
    if name in ("core", "python"):  # imported with TensorFlow, but not among its names
        return importlib.import_module(f"tensorflow.{name}")
    if name in ("keras", "layers"):
        return _legacy_keras(name)
    if name == "test" and dry_run_steps() is not None:
        return _test_with_gpu(real.compat.v1.test)
    try:
        return getattr(real.compat.v1, name)
    except AttributeError:
        return getattr(real, name)  # a module that tf.compat.v1 leaves out


def __dir__() -> list[str]:
    return [*dir(importlib.import_module("tensorflow").compat.v1), "contrib", "keras", "layers"]


def _test_with_gpu(module: types.ModuleType) -> types.SimpleNamespace:
    """Returns `tf.test` for a program that requires a GPU; a dry run reports one on any host."""
    names = {name: getattr(module, name) for name in dir(module) if not name.startswith("_")}
    return types.SimpleNamespace(**names | {"is_gpu_available": lambda *_args, **_options: True})


def _legacy_keras(name: str) -> Any:
    try:
        keras = importlib.import_module("tf_keras")
    except ModuleNotFoundError:
        if name == "keras":
            return importlib.import_module("tensorflow").keras
        raise NoCounterpartError(
            "tf.layers needs Keras 2. Run `pip install tf_keras`, or use the layers of towerpack_layers: "
            f"{page('#what-tensorflow-no-longer-has')}."
        ) from None
    if name == "keras":
        return keras
    return importlib.import_module("tf_keras.api._v1.keras.__internal__.legacy.layers")
