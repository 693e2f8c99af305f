"""The parts of `tf.contrib` that programs of Tensorpack use."""

from __future__ import annotations

import importlib
import types
from typing import Any

import tensorflow.compat.v1 as tf

from towerpack_layers.interop._enable_slim import repair_slim  # noqa: PLC2701

from .._errors import NoCounterpartError, page

__all__: list[str] = []


def _rnn() -> types.SimpleNamespace:
    cells = importlib.import_module("tf_keras.api._v1.keras.__internal__.legacy.rnn_cell")

    def LSTMBlockCell(
        num_units: int,
        forget_bias: float = 1.0,
        cell_clip: float | None = None,
        use_peephole: bool = False,
        **options: Any,
    ) -> Any:
        """Creates an `LSTMCell`, which has the same variables and computes the same result in more ops."""
        options = {"name": "lstm_cell", "forget_bias": forget_bias, **options}
        return cells.LSTMCell(num_units, use_peephole, cell_clip, **options)

    return types.SimpleNamespace(
        **{name: getattr(cells, name) for name in dir(cells) if not name.startswith("_")},
        LSTMBlockCell=LSTMBlockCell,
        static_rnn=tf.nn.static_rnn,
        static_bidirectional_rnn=tf.nn.static_bidirectional_rnn,
    )


def _layers() -> types.SimpleNamespace:
    slim = repair_slim()
    names = {name: getattr(slim, name) for name in dir(slim) if not name.startswith("_")}
    names |= {"xavier_initializer": _xavier, "variance_scaling_initializer": _variance_scaling}
    return types.SimpleNamespace(**names)


def _xavier(uniform: bool = True, seed: int | None = None, dtype: Any = tf.float32) -> Any:
    return tf.variance_scaling_initializer(1.0, "fan_avg", _distribution(uniform), seed, dtype)


def _variance_scaling(
    factor: float = 2.0,
    mode: str = "FAN_IN",
    uniform: bool = False,
    seed: int | None = None,
    dtype: Any = tf.float32,
) -> Any:
    return tf.variance_scaling_initializer(factor, mode.lower(), _distribution(uniform), seed, dtype)


def _distribution(uniform: bool) -> str:
    return "uniform" if uniform else "truncated_normal"


def _framework() -> types.SimpleNamespace:
    """Returns tf_slim's variables and scopes of arguments, and functions that TensorFlow still has."""
    repair_slim()
    parts = [importlib.import_module(f"tf_slim.ops.{part}") for part in ("arg_scope", "variables")]
    names = {name: getattr(part, name) for part in parts for name in part.__all__}
    names |= {name: getattr(tf.train, name) for name in ("list_variables", "load_variable")}
    return types.SimpleNamespace(**names, argsort=tf.argsort, nest=tf.nest)


_MADE = {
    "slim": repair_slim,  # TensorFlow 1's behaviour: layers train in all towers by default
    "layers": _layers,
    "rnn": _rnn,
    "framework": _framework,
    "signal": lambda: tf.signal,
    "compiler": lambda: types.SimpleNamespace(
        xla=importlib.import_module("tensorflow.python.compiler.xla.xla")
    ),
}


def __getattr__(name: str) -> Any:
    if name in _MADE:
        return globals().setdefault(name, _MADE[name]())
    if name.startswith("__"):
        raise AttributeError(name)
    raise NoCounterpartError(
        f"tf.contrib.{name} was removed after TensorFlow 1. For the replacement, read "
        f"{page('#what-tensorflow-no-longer-has')}."
    )
