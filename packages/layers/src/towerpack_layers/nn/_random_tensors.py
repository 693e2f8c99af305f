"""Random tensors that a resumed run repeats, and the key of their numbers."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from ..arguments import is_number
from ..registry._layer_scope import check_graph_mode
from ..tower._tower_context import TowerContext, get_current_tower_context

__all__ = ["generator_of_step", "random_normal", "random_uniform", "seeded_tower"]


# The generator's number in TensorFlow. It is explicit, because "auto" may differ between devices.
_PHILOX = 1

# The names of TensorFlow's body graph classes: their module is private, and no public API identifies them.
_LOOPS, _BRANCH = ("WhileBodyFuncGraph", "WhileCondFuncGraph"), "CondBranchFuncGraph"


def seeded_tower() -> TowerContext | None:
    """Returns the current tower if it has reproducible random numbers, else `None`."""
    tower = get_current_tower_context()
    return None if tower is None or tower.random_seed is None or tower.step is None else tower


def generator_of_step(call: str, tower: TowerContext, scope: str, seed: int | None) -> dict[str, Any]:
    """Returns key, counter and generator for TensorFlow's stateless ops, different at each step.

    Args:
        call: the layer's label, for errors.
        tower: a `seeded_tower`.
        scope: a name scope of the layer that is unique in its graph even if variables are reused.
        seed: the layer's own seed.

    Raises:
        ValueError: the layer is in a `tf.function`, or in a loop of TensorFlow 1's control flow.
    """
    # Philox increments the lower half of its counter, so no two steps share a number.
    return {
        "key": _layer_key(call, tower, scope, seed),
        "counter": _counter_from(tower.step),
        "alg": _PHILOX,
    }


def _layer_key(call: str, tower: TowerContext, scope: str, seed: int | None) -> tf.Tensor:
    """Returns the key for this run, tower, layer and iteration: one uint64 as a vector."""
    bodies = _bodies(call)
    place = "".join([*(_place_of_body(tower, body) for body in bodies), _without_tower(tower, bodies, scope)])
    layer = zlib.crc32(f"{tower.index}:{place}:{seed}".encode())
    key = tf.constant([(int(tower.random_seed or 0) << 32 | layer) % 2**64], tf.uint64)
    for body in bodies:
        if type(body).__name__ in _LOOPS:
            key = _mix(key, _iteration(body))
    return key


def _bodies(call: str) -> list[Any]:
    """Returns the graphs of the bodies that the layer is built in, the outermost first."""
    bodies: list[Any] = []
    graph = tf.get_default_graph()
    while True:
        _check_no_old_loop(call, graph)
        if getattr(graph, "outer_graph", None) is None:
            return bodies
        if type(graph).__name__ not in (*_LOOPS, _BRANCH):
            raise ValueError(
                f"{call}: in a tower with a random_seed it cannot be inside a tf.function (or a function of "
                "tf.data). Such a function is built once and may be called many times, and all calls would "
                "draw the same numbers. Remove the tf.function, or call the layer outside of it."
            )
        bodies.insert(0, graph)
        graph = graph.outer_graph


def _check_no_old_loop(call: str, graph: Any) -> None:
    context = graph._get_control_flow_context()
    while context is not None:
        if context.IsWhileContext():
            raise ValueError(
                f"{call}: in a tower with a random_seed it cannot be inside a loop of TensorFlow 1's control "
                f"flow, which has no iteration count: all iterations would draw the same numbers. Call "
                f"tf.enable_control_flow_v2() before the graph is built."
            )
        context = context.outer_context


def _place_of_body(tower: TowerContext, body: Any) -> str:
    # The name consists of the scope around the body, its kind and a number. The number counts all bodies of
    # the process, so it is not part of the position.
    around = f"{body.outer_graph.get_name_scope()}/"
    kind = body.name.rpartition("_")[0].rpartition("_")[2]
    outermost = getattr(body.outer_graph, "outer_graph", None) is None
    return f"{around.removeprefix(f'{tower.name}/') if outermost else around}{kind}/"


def _without_tower(tower: TowerContext, bodies: list[Any], scope: str) -> str:
    return scope if bodies else scope.removeprefix(f"{tower.name}/")


def _iteration(body: Any) -> tf.Tensor:
    # The loop's counter is the first argument of its condition and its body.
    return body.get_operations()[0].outputs[0]


def _mix(key: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
    """Returns a new key, drawn with the key at this position of the generator's sequence."""
    return tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=[1],
        key=key,
        counter=_counter_from(number),
        alg=_PHILOX,
        dtype=tf.uint64,
    )


def _counter_from(number: Any) -> tf.Tensor:
    return tf.stack([tf.constant(0, tf.uint64), tf.cast(number, tf.uint64)])


def random_normal(
    name: str,
    shape: Sequence[Any] | tf.Tensor,
    mean: float = 0.0,
    stddev: float = 1.0,
    dtype: tf.DType = tf.float32,
    seed: int | None = None,
) -> tf.Tensor:
    """Draws normally distributed numbers at each step.

    In a tower with a `random_seed` and a `step`, they depend only on these two, the tower's index, the
    position in the graph and, in a `tf.while_loop`, the iteration. A resumed run therefore draws the same
    numbers as an uninterrupted one. Otherwise TensorFlow's stateful generator draws them.

    Args:
        name: the name scope of the result, `<name>/output`.
        shape: sizes, each a number or a scalar tensor; or an integer vector.
        mean: mean of the distribution.
        stddev: standard deviation of the distribution, not negative.
        dtype: floating dtype.
        seed: for the stateful generator; with a tower's `random_seed` it is mixed into the key.

    Returns:
        Tensor of the shape and dtype.

    Raises:
        GraphRequiredError: TensorFlow executes eagerly.
        TypeError: `name` is not a name, or `dtype` is not floating.
        ValueError: a parameter of the distribution is out of range; or, in a tower with a `random_seed`, the
            call is in a `tf.function`, or in a loop of TensorFlow 1's control flow.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import TowerContext, random_normal
        >>> def draw(step):
        ...     with tf.Graph().as_default(), tf.Session() as session:
        ...         with TowerContext("", is_training=True, random_seed=1, step=tf.constant(step)):
        ...             return session.run(random_normal("noise", [2, 3])).tolist()
        >>> draw(5) == draw(5), draw(5) == draw(6)
        (True, False)
    """
    call = _check("random_normal", name, dtype)
    if not is_number(mean) or not is_number(stddev) or not stddev >= 0:
        raise ValueError(
            f"{call}: mean must be a number and stddev one of at least 0, received {mean!r} and {stddev!r}."
        )
    with tf.name_scope(name) as scope:
        keyed, stateful = tf.raw_ops.StatelessRandomNormalV2, tf.random_normal
        drawn = _draw(call, scope, shape, dtype, seed, keyed, stateful)
        return tf.identity(drawn * tf.cast(stddev, dtype) + tf.cast(mean, dtype), "output")


def random_uniform(
    name: str,
    shape: Sequence[Any] | tf.Tensor,
    minval: float = 0.0,
    maxval: float = 1.0,
    dtype: tf.DType = tf.float32,
    seed: int | None = None,
) -> tf.Tensor:
    """Draws uniformly distributed numbers with `minval <= x < maxval` at each step.

    They are reproducible under the same conditions as those of `random_normal`.

    Args:
        name: the name scope of the result, `<name>/output`.
        shape: sizes, each a number or a scalar tensor; or an integer vector.
        minval: the smallest value.
        maxval: the exclusive upper bound, larger than `minval`.
        dtype: floating dtype.
        seed: for the stateful generator; with a tower's `random_seed` it is mixed into the key.

    Returns:
        Tensor of the shape and dtype.

    Raises:
        GraphRequiredError: TensorFlow executes eagerly.
        TypeError: `name` is not a name, or `dtype` is not floating.
        ValueError: the bounds are out of order; or, in a tower with a `random_seed`, the call is in a
            `tf.function`, or in a loop of TensorFlow 1's control flow.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import random_uniform
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     drawn = session.run(random_uniform("z", [1000], -1, 1))
        >>> bool(drawn.min() >= -1), bool(drawn.max() < 1)
        (True, True)
    """
    call = _check("random_uniform", name, dtype)
    if not is_number(minval) or not is_number(maxval) or not minval < maxval:
        raise ValueError(
            f"{call}: minval must be a number below maxval, received minval={minval!r} and maxval={maxval!r}."
        )
    with tf.name_scope(name) as scope:
        keyed, stateful = tf.raw_ops.StatelessRandomUniformV2, tf.random_uniform
        drawn = _draw(call, scope, shape, dtype, seed, keyed, stateful)
        return _keep_below(drawn, minval, maxval)


def _check(function: str, name: object, dtype: Any) -> str:
    """Checks the name and the dtype, and returns the call's label for errors."""
    if not isinstance(name, str) or not name:
        raise TypeError(f"{function}: the first argument is a name, a non-empty str; received {name!r}.")
    call = f"{function}({name!r})"
    check_graph_mode(call)
    if not tf.as_dtype(dtype).is_floating:
        raise TypeError(f"{call}: dtype must be a floating one, received {tf.as_dtype(dtype).name}.")
    return call


def _draw(
    call: str,
    scope: str,
    shape: Any,
    dtype: tf.DType,
    seed: int | None,
    keyed: Callable[..., tf.Tensor],
    stateful: Callable[..., tf.Tensor],
) -> tf.Tensor:
    """Draws from the standard distribution, with the tower's key if it has one."""
    tower = seeded_tower()
    if tower is None:
        return stateful(shape, dtype=dtype, seed=seed)
    generator = generator_of_step(call, tower, scope, seed)
    return keyed(shape=tf.convert_to_tensor(shape, preferred_dtype=tf.int32), dtype=dtype, **generator)


def _keep_below(drawn: tf.Tensor, minval: float, maxval: float) -> tf.Tensor:
    """Scales numbers between 0 and 1 to the bounds, below the upper one despite rounding."""
    dtype = drawn.dtype
    stretched = drawn * tf.cast(maxval - minval, dtype) + tf.cast(minval, dtype)
    below = np.nextafter(dtype.as_numpy_dtype(maxval), dtype.as_numpy_dtype(minval))
    return tf.minimum(stretched, tf.constant(below, dtype), name="output")
