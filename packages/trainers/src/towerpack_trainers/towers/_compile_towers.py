"""Compiles towers with XLA."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf

from towerpack_layers import get_current_tower_context

from .._errors import ConfigError

__all__ = ["compile_training_towers", "leave_fusion_to_xla"]


def compile_training_towers(function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a tower function with training towers, gradients included, that XLA compiles.

    The ops are marked; TensorFlow compiles the supported ones, separately for each device, when a step first
    runs (and again for each new shape of the input). Names, collections, summaries, statistics and ops that
    XLA does not support are unchanged. Evaluation towers are not compiled.

    Initial values of variables are the same as without XLA. Random numbers drawn in the tower, such as
    dropout masks, differ from those without XLA, but are the same in each run with the same seed.

    Args:
        function: a tower function, such as `ModelDesc.build_graph`.

    Raises:
        ConfigError: this TensorFlow was built without XLA.
    """
    if not tf.test.is_built_with_xla():
        raise ConfigError("xla=True: this TensorFlow was built without XLA. Remove xla=True.")

    @functools.wraps(function)
    def build(*inputs: tf.Tensor) -> Any:
        context = get_current_tower_context()
        if context is None or not context.is_training:
            return function(*inputs)
        with tf.variable_creator_scope(_create_uncompiled), tf.xla.experimental.jit_scope():
            return function(*inputs)

    return build


def _create_uncompiled(next_creator: Callable[..., tf.Variable], **arguments: Any) -> tf.Variable:
    """Makes a variable without compiling its initializer: it runs once, and XLA would draw other numbers."""
    with tf.xla.experimental.jit_scope(compile_ops=False):
        return next_creator(**arguments)


def leave_fusion_to_xla(config: tf.ConfigProto) -> None:
    """Keeps TensorFlow from fusing ops itself, in sessions that run compiled towers.

    The ops that its remapper fuses, such as a product with its bias, lose the mark for compilation.
    Trainers with `TrainConfig(xla=True)` and without `session_config` call this.

    Args:
        config: the session's options, which are changed.
    """
    rewrites = config.graph_options.rewrite_options
    rewrites.remapping = rewrites.OFF
