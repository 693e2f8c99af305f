"""Compiling a tower by XLA."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf

from towerpack_layers import get_current_tower_context

from .._errors import ConfigError

__all__ = ["compile_training_towers"]


def compile_training_towers(function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a tower function whose training towers, gradients included, are compiled by XLA.

    The ops are marked, and TensorFlow compiles what XLA can, each device's part on its own, when a step first
    runs (and again for each new shape of the input). All else stays where it is: names, collections,
    summaries, statistics, ops that XLA does not know. Evaluation towers are not compiled.

    Args:
        function: a tower function, such as `ModelDesc.build_graph`.

    Raises:
        ConfigError: this TensorFlow was built without XLA.
    """
    if not tf.test.is_built_with_xla():
        raise ConfigError("xla=True: this TensorFlow was built without XLA. Leave xla= out.")

    @functools.wraps(function)
    def build(*inputs: tf.Tensor) -> Any:
        context = get_current_tower_context()
        if context is None or not context.is_training:
            return function(*inputs)
        with tf.xla.experimental.jit_scope():
            return function(*inputs)

    return build
