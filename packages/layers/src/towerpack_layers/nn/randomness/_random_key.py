"""The key of a layer's random numbers: by seed, tower and place in the graph, and in loops by iteration.

The body of a `tf.cond` or `tf.while_loop` is a graph of its own, whose name scopes start empty. So the place
of a layer in it is that of the body in the graph around it, and so on outwards, then the name scope inside.
The same ops compute every iteration of a loop, so the number of the iteration is mixed into the key as a
tensor.
"""

from __future__ import annotations

import zlib
from typing import Any

import tensorflow.compat.v1 as tf

from ...tower import TowerContext, get_current_tower_context

__all__ = ["generator_of_step", "seeded_tower"]

# The generator's number in TensorFlow. It is named, because "auto" may be another one on another device.
_PHILOX = 1

# TensorFlow's graphs of bodies, by name: their module is private, and nothing public tells them apart.
_LOOPS, _BRANCH = ("WhileBodyFuncGraph", "WhileCondFuncGraph"), "CondBranchFuncGraph"


def seeded_tower() -> TowerContext | None:
    """Returns the current tower if its random numbers are to be the same in every run, else `None`."""
    tower = get_current_tower_context()
    return None if tower is None or tower.random_seed is None or tower.step is None else tower


def generator_of_step(call: str, tower: TowerContext, scope: str, seed: int | None) -> dict[str, Any]:
    """Returns the key, counter and generator for TensorFlow's stateless ops, which differ at each step.

    Args:
        call: the layer's label, for errors.
        tower: a `seeded_tower`.
        scope: a name scope of the layer's own, which is unique in its graph even if variables are reused.
        seed: the layer's own seed.

    Raises:
        ValueError: the layer is in a `tf.function`, or in a loop of TensorFlow 1's control flow.
    """
    # Philox counts in the lower half of its counter, so no two steps share a number.
    return {
        "key": _layer_key(call, tower, scope, seed),
        "counter": _counter_from(tower.step),
        "alg": _PHILOX,
    }


def _layer_key(call: str, tower: TowerContext, scope: str, seed: int | None) -> tf.Tensor:
    """Returns the key for the numbers of this run, tower, layer and iteration: one uint64 as a vector."""
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
                f"tf.data). Such a function is built once and may be called many times, and all calls would "
                f"draw the same numbers. Leave the tf.function out, or call the layer outside of it."
            )
        bodies.insert(0, graph)
        graph = graph.outer_graph


def _check_no_old_loop(call: str, graph: Any) -> None:
    context = graph._get_control_flow_context()
    while context is not None:
        if context.IsWhileContext():
            raise ValueError(
                f"{call}: in a tower with a random_seed it cannot be inside a loop of TensorFlow 1's control "
                f"flow, which has no count of its iterations: all would draw the same numbers. Call "
                f"tf.enable_control_flow_v2() before the graph is built."
            )
        context = context.outer_context


def _place_of_body(tower: TowerContext, body: Any) -> str:
    # The name is made of the scope around the body, its kind and a number of the process, which is no part
    # of the place: it depends on all other bodies of the process.
    around = f"{body.outer_graph.get_name_scope()}/"
    kind = body.name.rpartition("_")[0].rpartition("_")[2]
    outermost = getattr(body.outer_graph, "outer_graph", None) is None
    return f"{around.removeprefix(f'{tower.name}/') if outermost else around}{kind}/"


def _without_tower(tower: TowerContext, bodies: list[Any], scope: str) -> str:
    return scope if bodies else scope.removeprefix(f"{tower.name}/")


def _iteration(body: Any) -> tf.Tensor:
    # The loop's own count is the first argument of its condition and its body.
    return body.get_operations()[0].outputs[0]


def _mix(key: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
    """Returns a new key, drawn with the key at this place of the generator's sequence."""
    return tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=[1],
        key=key,
        counter=_counter_from(number),
        alg=_PHILOX,
        dtype=tf.uint64,
    )


def _counter_from(number: Any) -> tf.Tensor:
    return tf.stack([tf.constant(0, tf.uint64), tf.cast(number, tf.uint64)])
