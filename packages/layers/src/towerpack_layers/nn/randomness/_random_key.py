"""The key of a layer's random numbers, from seed, tower, position in the graph and loop iteration.

The body of a `tf.cond` or `tf.while_loop` is a separate graph with empty name scopes. The position of a layer
in it consists of the body's position in the outer graph, and so on outwards, and the name scope inside. The
same ops compute every iteration of a loop, so the iteration number is mixed into the key as a tensor.
"""

from __future__ import annotations

import zlib
from typing import Any

import tensorflow.compat.v1 as tf

from ...tower import TowerContext, get_current_tower_context

__all__ = ["generator_of_step", "seeded_tower"]

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
