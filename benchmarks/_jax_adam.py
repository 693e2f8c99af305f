"""Adam in JAX, whose optimizers are packages of others, and an epoch of its steps in `lax.scan`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from _loop_flows import RATE


def begin(shapes: tuple[tuple[int, ...], ...]) -> Any:
    """Returns random weights, both moments and the number of steps."""

    def weights() -> list[Any]:
        draw = np.random.default_rng(1)
        return [jnp.asarray(0.1 * draw.normal(size=shape), jnp.float32) for shape in shapes]

    # Separate arrays for both moments: the same one cannot be donated twice.
    first, second = ([jnp.zeros_like(value) for value in weights()] for _ in range(2))
    return weights(), first, second, jnp.float32(0)


def updated(state: Any, gradients: list[Any]) -> Any:
    """Returns the state after a step."""
    values, first, second, number = state
    number = number + 1
    first = [0.9 * m + 0.1 * g for m, g in zip(first, gradients)]
    second = [0.999 * v + 0.001 * g * g for v, g in zip(second, gradients)]
    rate = RATE * jnp.sqrt(1 - 0.999**number) / (1 - 0.9**number)
    values = [w - rate * m / (jnp.sqrt(v) + 1e-8) for w, m, v in zip(values, first, second)]
    return values, first, second, number


def epoch_in_scan(step: Callable[[Any, Any], Any], images: np.ndarray, labels: np.ndarray, batch: int) -> Any:
    """Returns a function that makes a step for each batch of the data, in a new order and in one call."""
    images, labels = map(jnp.asarray, (images, labels))
    calls, draw = len(images) // batch, np.random.default_rng(1)

    @functools.partial(jax.jit, donate_argnums=0)
    def whole(state: Any, order: Any) -> Any:
        def one(state: Any, rows: Any) -> tuple[Any, None]:
            return step(state, (images[rows], labels[rows])), None

        return jax.lax.scan(one, state, order)[0]

    return lambda state: whole(state, draw.permutation(len(images))[: calls * batch].reshape(calls, batch))
