"""Masks by seed, step, tower, place and iteration, wherever a layer is built."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import Dropout, TowerContext

Masks = list[tuple[float, ...]]
Build = Callable[[], Any]
WIDTH = 64


def draw(build: Build, steps: Sequence[int] = (5,), seed: int = 3, **tower: Any) -> list[Any]:
    """The results of `build` in a tower of a new graph, at each step of a new session."""
    with tf.Graph().as_default(), tf.Session() as session:
        step = tf.placeholder(tf.int64, [])
        with TowerContext(tower.pop("name", ""), is_training=True, random_seed=seed, step=step, **tower):
            masks = build()
        return [session.run(masks, {step: number}) for number in steps]


def flat(masks: Any) -> Masks:
    """The rows of all masks."""
    if isinstance(masks, (list, tuple)):
        return [row for mask in masks for row in flat(mask)]
    return [tuple(row) for row in masks.reshape(-1, WIDTH).tolist()]


def mask(*name: str) -> tf.Tensor:
    return Dropout(*name, tf.ones([WIDTH]), rate=0.5)


def loop(times: int, body: Build) -> tf.Tensor:
    return tf.map_fn(lambda _: body(), tf.range(times), tf.float32)


def in_loops() -> Any:
    """Two loops with layers of one name, and one with an unnamed layer, plus unnamed ones outside."""
    with tf.variable_scope("rnn1"):
        first = loop(4, lambda: mask("d"))
    with tf.variable_scope("rnn2"):
        second = loop(4, lambda: mask("d"))
    return [mask(), first, second, loop(4, mask), loop(4, mask), mask()]


def in_nested_loops() -> Any:
    return [loop(3, lambda: loop(3, mask)), loop(3, lambda: tf.stack([mask(), mask()]))]


def in_branches() -> Any:
    true = tf.equal(tf.timestamp(), tf.timestamp() - 1.0) | tf.constant(True)
    return [
        mask(),
        tf.cond(true, mask, lambda: mask() * 2),
        tf.cond(true, mask, mask),
        tf.cond(tf.logical_not(true), mask, mask),
        tf.switch_case(tf.cast(true, tf.int32), [mask, mask, mask]),
        loop(3, lambda: tf.cond(true, mask, mask)),
        tf.cond(true, lambda: loop(3, mask), lambda: loop(3, mask)),
    ]


def reused() -> Any:
    with tf.variable_scope("", reuse=tf.AUTO_REUSE):
        return [
            mask("d"),
            mask("d"),
            loop(2, lambda: mask("d")),
            loop(2, lambda: tf.stack([mask("d"), mask("d")])),
        ]


EVERYWHERE = [in_loops, in_nested_loops, in_branches, reused]
everywhere = pytest.mark.parametrize("build", EVERYWHERE)
pytestmark = pytest.mark.slow


@everywhere
def test_no_two_masks_of_a_step_are_equal(build: Build) -> None:
    [masks] = draw(build)
    rows = flat(masks)
    assert len(set(rows)) == len(rows)


@everywhere
def test_a_resumed_run_draws_the_same(build: Build) -> None:
    whole = [flat(masks) for masks in draw(build, [0, 1, 2])]
    rest = [flat(masks) for masks in draw(build, [1, 2])]
    assert whole[1:] == rest
    assert not set(whole[0]) & {row for rows in rest for row in rows}


@everywhere
@pytest.mark.parametrize("other", [{"seed": 4}, {"index": 1, "num_towers": 2}], ids=str)
def test_other_seeds_and_towers_draw_others(build: Build, other: dict[str, Any]) -> None:
    [mine], [theirs] = draw(build), draw(build, **other)
    assert not set(flat(mine)) & set(flat(theirs))


@everywhere
def test_the_towers_name_and_other_ops_do_not_matter(build: Build) -> None:
    def with_others() -> Any:
        with tf.variable_scope("others"):
            for name in "abc":
                mask(name)
                tf.cond(tf.constant(True), mask, mask)
            loop(2, mask)
        return build()

    [alone], [among_others] = draw(build), draw(with_others, name="tower0")
    assert flat(alone) == flat(among_others)


def test_gradients_see_the_masks_of_their_iterations() -> None:
    def build() -> Any:
        x = tf.ones([3, WIDTH])
        out = tf.map_fn(lambda row: Dropout(row, rate=0.5), x)
        return out, tf.gradients(out, x)[0]

    [(out, gradient)] = draw(build)
    assert flat(out) == flat(gradient)


def test_a_function_that_may_be_called_twice_is_refused() -> None:
    message = r"Dropout\('d'\): in a tower with a random_seed it cannot be inside a tf.function"
    with pytest.raises(ValueError, match=message):
        draw(lambda: tf.function(lambda: mask("d"), autograph=False)())
    with pytest.raises(ValueError, match=r"inside a tf\.function"):
        draw(lambda: tf.function(lambda: loop(2, mask), autograph=False)())


def test_without_a_seed_a_function_draws_new_numbers_at_each_call() -> None:
    with tf.Graph().as_default(), tf.Session() as session, TowerContext("", is_training=True):
        function = tf.function(mask, autograph=False)
        first, second = session.run([function(), function()])
    assert flat(first) != flat(second)


def test_loops_of_old_control_flow_are_refused() -> None:
    tf.disable_control_flow_v2()
    try:
        with pytest.raises(ValueError, match=r"TensorFlow 1's control flow.*tf\.enable_control_flow_v2"):
            draw(lambda: loop(2, mask))
        [masks] = draw(lambda: [mask(), tf.cond(tf.constant(True), mask, mask)])
        assert len(set(flat(masks))) == 2
    finally:
        tf.enable_control_flow_v2()


def test_the_numbers_of_a_layer_outside_of_bodies_are_those_of_version_0_1() -> None:
    """Old checkpoints resume with the old masks."""
    [masks] = draw(lambda: [mask("d"), mask()], seed=20_170)
    assert ["".join(str(int(value > 0)) for value in row) for row in flat(masks)] == [
        "1011000001110001110110001001010111000100000111100001101010111100",
        "1111010110110101011110101101010101010100100000010000001100110000",
    ]
