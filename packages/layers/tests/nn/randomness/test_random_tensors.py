from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import GraphRequiredError, TowerContext, random_normal, random_uniform

both = pytest.mark.parametrize("draw", [random_normal, random_uniform])


def drawn(draw: Any, steps: list[int], **tower: Any) -> list[list[float]]:
    """The numbers drawn by a new graph and session at the given steps."""
    with tf.Graph().as_default(), tf.Session() as session:
        step = tf.placeholder(tf.int64, [])
        with TowerContext(**{"name": "", "is_training": True, "random_seed": 3, "step": step, **tower}):
            out = draw("noise", [64])
        return [session.run(out, {step: value}).tolist() for value in steps]


def seeded(name: str = "", index: int = 0) -> TowerContext:
    return TowerContext(name, is_training=True, index=index, num_towers=2, random_seed=3, step=tf.constant(7))


@both
class TestBySeedAndStep:
    def test_a_resumed_run_draws_the_same(self, draw: Any) -> None:
        assert drawn(draw, [0, 1, 2, 3])[2:] == drawn(draw, [2, 3])

    def test_steps_seeds_and_towers_differ(self, draw: Any) -> None:
        first, second = drawn(draw, [0, 1])
        assert first != second
        assert drawn(draw, [0], random_seed=4) != [first]
        assert drawn(draw, [0], index=1, num_towers=2) != [first]

    def test_the_towers_name_does_not_matter(self, draw: Any) -> None:
        assert drawn(draw, [5]) == drawn(draw, [5], name="tower0")

    def test_places_and_seeds_of_calls_differ(self, draw: Any, run: Any) -> None:
        with seeded():
            outs = [draw("a", [64]), draw("a", [64]), draw("b", [64]), draw("c", [64], seed=4)]
        assert [out.op.name for out in outs] == ["a/output", "a_1/output", "b/output", "c/output"]
        assert len({tuple(value.tolist()) for value in run(outs)}) == 4

    def test_iterations_of_a_loop_differ(self, draw: Any, run: Any) -> None:
        with seeded():
            loop = tf.while_loop(
                lambda k, _: k < 3,
                lambda k, rows: [k + 1, tf.tensor_scatter_nd_update(rows, [[k]], draw("z", [1, 8]))],
                [tf.constant(0), tf.zeros([3, 8])],
            )
        rows = run(loop[1])
        assert len({tuple(row) for row in rows.tolist()}) == 3

    def test_a_tf_function_is_refused(self, draw: Any, graph: tf.Graph) -> None:
        with seeded(), pytest.raises(ValueError, match=r"random_\w+\('z'\): in a tower with a random_seed"):
            tf.function(lambda: draw("z", [3]), autograph=False)()


@both
@pytest.mark.parametrize("is_seeded", [False, True])
class TestShapes:
    def test_shapes_and_types(self, run: Any, draw: Any, is_seeded: bool) -> None:
        size = tf.placeholder_with_default(5, [])
        shapes = [[], [3, 0], [4, 5], [np.int64(2), 3], (size, 2), tf.stack([size, 3]), tf.TensorShape([2])]
        static = [[], [3, 0], [4, 5], [2, 3], [None, 2], [None, 3], [2]]
        with seeded() if is_seeded else TowerContext("", is_training=True):
            outs = [draw("z", shape) for shape in shapes]
        assert [out.shape.as_list() for out in outs] == static
        for value, sizes in zip(run(outs), static):
            assert list(value.shape) == [5 if known is None else known for known in sizes]

    @pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float64], ids=lambda dtype: dtype.name)
    def test_dtypes(self, run: Any, draw: Any, is_seeded: bool, dtype: tf.DType) -> None:
        with seeded() if is_seeded else TowerContext("", is_training=True):
            out = draw("z", [2000], dtype=dtype)
        assert out.dtype == dtype
        assert np.isfinite(run(out).astype("f8")).all()


@pytest.mark.parametrize("is_seeded", [False, True])
def test_distributions(run: Any, is_seeded: bool) -> None:
    with seeded() if is_seeded else TowerContext("", is_training=True):
        normal = random_normal("n", [100_000], mean=3, stddev=2, seed=1)
        uniform = random_uniform("u", [100_000], -2, 5, seed=2)
    normal, uniform = run([normal, uniform])
    assert normal.mean() == pytest.approx(3, abs=0.03)
    assert normal.std() == pytest.approx(2, abs=0.03)
    assert (np.abs(normal - 3) < 2).mean() == pytest.approx(0.6827, abs=0.01)
    assert np.histogram(uniform, 7, (-2, 5))[0] == pytest.approx(np.full(7, 100_000 / 7), rel=0.03)


def test_the_upper_bound_is_never_drawn(run: Any) -> None:
    """Though in bfloat16 there are eight bits to round to."""
    with seeded():
        value = run(random_uniform("u", [100_000], 100, 101, dtype=tf.bfloat16)).astype("f4")
    assert value.min() == 100
    assert value.max() < 101


def test_without_a_tower_it_differs_from_run_to_run(graph: tf.Graph) -> None:
    out = random_normal("z", [64])
    with tf.Session() as session:
        assert (session.run(out) != session.run(out)).any()


@both
@pytest.mark.parametrize("name", ["", None, 3])
def test_the_name_is_required(graph: tf.Graph, draw: Any, name: Any) -> None:
    with pytest.raises(TypeError, match=r"random_\w+: the first argument is a name, a non-empty str"):
        draw(name, [3])


@both
def test_eager_mode_and_integers(draw: Any) -> None:
    with pytest.raises(GraphRequiredError, match=r"random_\w+\('z'\) builds a graph"):
        draw("z", [3])
    with (
        tf.Graph().as_default(),
        pytest.raises(TypeError, match="dtype must be a floating one, received int32"),
    ):
        draw("z", [3], dtype=tf.int32)


@pytest.mark.parametrize("options", [{"mean": "0"}, {"stddev": -1}, {"stddev": None}], ids=str)
def test_bad_normals(graph: tf.Graph, options: Any) -> None:
    with pytest.raises(ValueError, match=r"random_normal\('z'\): mean must be a number and stddev one"):
        random_normal("z", [3], **options)


@pytest.mark.parametrize("bounds", [(1, 1), (2, 1), ("0", 1), (0, None)], ids=str)
def test_bad_uniforms(graph: tf.Graph, bounds: Any) -> None:
    with pytest.raises(ValueError, match=r"random_uniform\('z'\): minval must be a number below maxval"):
        random_uniform("z", [3], *bounds)
