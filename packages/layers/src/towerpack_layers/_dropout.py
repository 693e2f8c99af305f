"""Dropout."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from towerpack_layers._errors import LayerArgumentError
from towerpack_layers._geometry import here, require_rank
from towerpack_layers._registry import register_layer
from towerpack_layers._tower import TowerContext, get_current_tower_context, resolve_training


@register_layer(use_scope=None)
def Dropout(
    x: tf.Tensor,
    *,
    rate: float = 0.5,
    training: bool | None = None,
    noise_shape: Sequence[int | None] | None = None,
    seed: int | None = None,
    keep_prob: None = None,
) -> tf.Tensor:
    """Zero a random part of the input and scale up the rest, after Srivastava et al. (2014), JMLR 15.

    The name may be left out: ``Dropout(x, rate=0.3)``.

    In a tower that has a ``random_seed`` and a ``step``, the mask depends on these two, the tower's index and
    the layer's place in the graph, and on nothing else, so a run that is resumed draws the masks that it
    would have drawn without the break. Otherwise masks are drawn by TensorFlow's stateful generator.

    Args:
        x: floating tensor of any shape.
        rate: the part to drop, at least 0 and below 1.
        training: whether to drop at all; by default what the tower says.
        noise_shape: shape of the mask, broadcast to the input: 1 (or ``None``, for the input's size) per
            axis.
        seed: for the stateful generator; with a tower's ``random_seed`` it is mixed into the mask's key.
        keep_prob: not supported; it only explains itself.

    Returns:
        Tensor of the input's shape and dtype.

    Raises:
        TowerError: outside any tower, without ``training``.
        LayerArgumentError: ``keep_prob`` was given.
        ValueError: ``rate`` out of range.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import Dropout
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     dropped = Dropout("dropout", tf.ones([1000]), rate=0.5, training=True, seed=1)
        ...     sorted(set(session.run(dropped).tolist()))
        [0.0, 2.0]
    """
    call = here("Dropout")
    require_rank(call, x)
    _check_rate(call, rate, keep_prob)
    if not resolve_training(call, training) or rate == 0:
        return x
    tower = get_current_tower_context()
    if tower is None or tower.random_seed is None or tower.step is None:
        return tf.nn.dropout(x, rate=rate, noise_shape=noise_shape, seed=seed)
    with tf.name_scope("mask") as scope:
        key = _mask_key(tower, scope, seed)
        # The algorithm is named because "auto_select" may choose another one on another device.
        return tf.nn.experimental.stateless_dropout(
            x, rate, seed=key, rng_alg="philox", noise_shape=noise_shape
        )


def _check_rate(call: str, rate: float, keep_prob: float | None) -> None:
    if keep_prob is not None:
        raise LayerArgumentError(
            f"{call}: keep_prob is not supported; use rate, the part to drop: rate={1 - keep_prob:g} instead "
            f"of keep_prob={keep_prob:g}."
        )
    if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 <= rate < 1:
        raise ValueError(f"{call}: rate must be a number with 0 <= rate < 1, got {rate!r}.")


def _mask_key(tower: TowerContext, scope: str, seed: int | None) -> tf.Tensor:
    """Return the two numbers that decide the mask: one for run, tower and layer, one for the step.

    The layer is known by its name scope, which is unique in the graph even if variables are reused, without
    the tower's own prefix.
    """
    place = scope.removeprefix(f"{tower.name}/")
    layer = zlib.crc32(f"{tower.index}:{place}:{seed}".encode())
    run = (int(tower.random_seed or 0) << 32 | layer) % 2**63
    return tf.stack([tf.constant(run, tf.int64), tf.cast(tower.step, tf.int64)])
