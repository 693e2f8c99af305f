"""Random numbers of Keras layers that differ at each step and repeat in a resumed run."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from ..nn.randomness import generator_of_step, seeded_tower

__all__ = ["fresh_seed", "is_seed", "make_other_generator"]


def is_seed(variable: Any) -> bool:
    """Returns whether a variable of Keras is the state of a `keras.random.SeedGenerator`."""
    return str(variable.name) == "seed_generator_state"


def fresh_seed(call: str) -> tf.Tensor:
    """Returns a state for a `keras.random.SeedGenerator` that differs at each step.

    In a tower with a `random_seed` and a `step` it depends only on these, the tower and the position in the
    graph.

    Args:
        call: the label of the call, for errors.
    """
    tower = seeded_tower()
    with tf.name_scope("seed") as scope:
        if tower is None:
            return tf.random.uniform([2], maxval=2**31 - 1, dtype=tf.int64)
        generator = generator_of_step(call, tower, scope, None)
        bits = tf.raw_ops.StatelessRandomUniformFullIntV2(shape=[2], dtype=tf.uint32, **generator)
        return tf.cast(bits, tf.int64)


def make_other_generator() -> Any:
    """Makes a generator for layers without one, replacing the global generator of Keras.

    It must be called within `detached`, which restores the global generator.
    """
    import keras
    from keras.src.backend.common import global_state

    generator = keras.random.SeedGenerator(name="other_random_numbers")
    global_state.set_global_attribute("global_seed_generator", generator)
    return generator
