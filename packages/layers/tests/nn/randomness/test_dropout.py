from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import Dropout, LayerArgumentError, LinearWrap, TowerContext, TowerError

Run = Callable[..., Any]


def masks(steps: list[int], **tower: Any) -> list[list[float]]:
    """Masks of a layer in a new graph and a new session, at the given steps."""
    with tf.Graph().as_default(), tf.Session() as session:
        step = tf.placeholder(tf.int64, [])
        options = {"name": "", "is_training": True, "random_seed": 3, "step": step, **tower}
        with TowerContext(**options):
            out = Dropout("dropout", tf.ones([64]), rate=0.25)
        return [session.run(out, {step: value}).tolist() for value in steps]


def test_drops_a_part_and_keeps_the_mean(run: Run) -> None:
    value = run(Dropout("d", tf.ones([200, 500]), rate=0.2, training=True))
    assert set(np.unique(value)) == {0.0, np.float32(1.25)}
    assert value.mean() == pytest.approx(1.0, abs=0.01)


def test_default_rate_is_one_half(run: Run) -> None:
    assert np.unique(run(Dropout(tf.ones([1000]), training=True))).tolist() == [0.0, 2.0]


@pytest.mark.parametrize("options", [{"training": False}, {"training": True, "rate": 0.0}], ids=str)
def test_does_nothing(run: Run, options: dict[str, Any]) -> None:
    assert run(Dropout("d", tf.ones([100]), **options)).min() == 1.0


def test_follows_the_tower_by_default(run: Run) -> None:
    x = tf.ones([1000])
    with TowerContext("", is_training=True):
        training, told = Dropout("a", x), Dropout("b", x, training=False)
    with TowerContext("InferenceTower", is_training=False, reuse=True):
        inference = Dropout("a", x)
    assert [run(out).min() for out in (training, told, inference)] == [0.0, 1.0, 1.0]
    assert inference.name == "InferenceTower/a/output:0"


def test_stateful_masks_differ_from_run_to_run(graph: tf.Graph) -> None:
    out = Dropout(tf.ones([1000]), training=True)
    with tf.Session() as session:
        assert (session.run(out) != session.run(out)).any()


class TestMasksBySeedAndStep:
    def test_a_resumed_run_draws_the_same(self) -> None:
        whole, rest = masks([0, 1, 2, 3]), masks([2, 3])
        assert whole[2:] == rest

    def test_steps_seeds_and_towers_differ(self) -> None:
        first, second = masks([0, 1])
        assert first != second
        assert masks([0], random_seed=4) != [first]
        assert masks([0], index=1, num_towers=2) != [first]

    def test_the_towers_name_does_not_matter(self) -> None:
        assert masks([5]) == masks([5], name="tower0")

    def test_layers_differ_also_when_one_name_is_reused(self, run: Run) -> None:
        x = tf.ones([64])
        with TowerContext("", is_training=True, random_seed=3, step=tf.constant(0)):
            outs = [Dropout("a", x), Dropout("b", x), Dropout(x), Dropout(x)]
            with tf.variable_scope("", reuse=True):
                outs.append(Dropout("a", x))
        assert len({tuple(value.tolist()) for value in run(outs)}) == 5

    def test_part_dropped_and_mean(self, run: Run) -> None:
        with TowerContext("", is_training=True, random_seed=-3, step=tf.constant(7)):
            out = Dropout("d", tf.ones([200, 500]), rate=0.2)
        assert run(out).mean() == pytest.approx(1.0, abs=0.01)

    @pytest.mark.parametrize("rate", [0.1, 0.5, 0.9, 1e-7, 1 - 1e-7])
    def test_the_mean_is_kept(self, run: Run, rate: float) -> None:
        with TowerContext("", is_training=True, random_seed=3, step=tf.constant(7)):
            out = Dropout("d", tf.ones([1000, 1001]), rate=rate)
        value = run(out)
        dropped = min(round(rate * 2**16), 2**16 - 1) / 2**16
        assert (value == 0).mean() == pytest.approx(dropped, abs=0.002)
        assert value.max() == pytest.approx(1 / (1 - dropped))

    @pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float64], ids=lambda dtype: dtype.name)
    @pytest.mark.parametrize("shape", [[], [3], [0, 4], [3, 5, 7]], ids=str)
    def test_any_type_and_shape(self, run: Run, dtype: tf.DType, shape: list[int]) -> None:
        with TowerContext("", is_training=True, random_seed=3, step=tf.constant(7)):
            out = Dropout("d", tf.ones(shape, dtype))
        assert out.dtype == dtype
        assert out.shape.as_list() == shape
        assert set(np.unique(run(out)).tolist()) <= {0.0, 2.0}

    def test_elements_and_steps_are_independent(self, run: Run) -> None:
        with TowerContext("", is_training=True, random_seed=3, step=tf.range(2)[0]):
            one = Dropout("d", tf.ones([300, 400]))
        with TowerContext("", is_training=True, random_seed=3, step=tf.constant(1)):
            other = Dropout("e", tf.ones([300, 400]))
        first, second = (value.reshape(-1) - 1 for value in run([one, other]))
        for shift in (1, 2, 4, 400):
            assert abs((first[shift:] * first[:-shift]).mean()) < 0.01
        assert abs((first * second).mean()) < 0.01

    def test_the_gradient_passes_where_the_input_does(self, run: Run) -> None:
        x = tf.ones([50, 3])
        with TowerContext("", is_training=True, random_seed=3, step=tf.constant(7)):
            out = Dropout("d", x, rate=0.25)
        value, gradient = run([out, tf.gradients(out, x)[0]])
        assert np.array_equal(value, gradient)

    def test_noise_shape(self, run: Run) -> None:
        with TowerContext("", is_training=True, random_seed=3, step=tf.constant(7)):
            out = Dropout("d", tf.ones([20, 30]), noise_shape=[None, 1])
        rows = run(out)
        assert (rows == rows[:, :1]).all()
        assert np.unique(rows).tolist() == [0.0, 2.0]


def test_noise_shape(run: Run) -> None:
    rows = run(Dropout(tf.ones([20, 30]), noise_shape=[20, 1], training=True))
    assert (rows == rows[:, :1]).all()


@pytest.mark.parametrize(
    "build",
    [
        lambda x: Dropout("d", x, 0.9, training=True, seed=1),
        lambda x: Dropout("d", x, keep_prob=0.9, training=True, seed=1),
        lambda x: Dropout(x, np.float32(0.9), training=True, seed=1),
        lambda x: Dropout("d", x, tf.constant(0.9), training=True, seed=1),
        lambda x: LinearWrap(x).Dropout("d", 0.9, training=True, seed=1)(),
    ],
    ids=["positional", "keyword", "numpy", "tensor", "linearwrap"],
)
def test_the_number_of_old_code_is_the_part_to_keep(run: Run, build: Any) -> None:
    with pytest.warns(
        DeprecationWarning, match=r"Dropout.*: keep_prob=, .* write rate=(0\.1|1 - keep_prob)$"
    ):
        out = build(tf.ones([20000]))
    value = run(out)
    assert (value == 0).mean() == pytest.approx(0.1, abs=0.01)
    assert value.max() == pytest.approx(1 / 0.9)


@pytest.mark.parametrize("keep_prob", [0, 1.5, "half", True])
def test_bad_keep_prob(graph: tf.Graph, keep_prob: Any) -> None:
    message = rf"Dropout\('d'\): keep_prob, .* 0 < keep_prob <= 1, received {keep_prob!r}"
    with pytest.raises(ValueError, match=message):
        Dropout("d", tf.ones([3]), keep_prob, training=True)


def test_keep_prob_and_rate_are_one_argument(graph: tf.Graph) -> None:
    message = "keep_prob= is an old spelling of rate=, which is also given"
    with pytest.raises(LayerArgumentError, match=message):
        Dropout("d", tf.ones([3]), 0.5, rate=0.5, training=True)
    with pytest.raises(LayerArgumentError, match="keep_prob is given by position and by keyword"):
        Dropout("d", tf.ones([3]), 0.5, keep_prob=0.5, training=True)


def test_keeping_all_does_nothing(graph: tf.Graph) -> None:
    x = tf.ones([3])
    with pytest.warns(DeprecationWarning):
        assert Dropout(x, 1.0, training=True) is x


@pytest.mark.parametrize("rate", [-0.1, 1.0, "half", True])
def test_bad_rates(graph: tf.Graph, rate: Any) -> None:
    with pytest.raises(
        ValueError, match=f"Dropout: rate must be a number with 0 <= rate < 1, received {rate!r}"
    ):
        Dropout(tf.ones([3]), rate=rate, training=True)


def test_outside_any_tower_training_must_be_given(graph: tf.Graph) -> None:
    with pytest.raises(TowerError, match=r"Dropout\('d'\) needs a training mode. Pass training=True"):
        Dropout("d", tf.ones([3]))


VALUES = [[-np.inf, np.inf, 1.0, -2.0] * 25]


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("noise_shape", [None, [1, 100]], ids=str)
def test_dropped_elements_are_zero_for_any_input(run: Run, seed: int | None, noise_shape: Any) -> None:
    x = tf.constant([*VALUES, [np.nan] * 100], tf.float32)
    with TowerContext("", is_training=True, random_seed=seed, step=tf.constant(7)):
        out = Dropout("d", x, rate=0.5, noise_shape=noise_shape)
        gradient = tf.gradients(out * tf.constant([[np.inf] * 100, [1.0] * 100]), x)[0]
    value, gradient = run([out, gradient])
    assert set(np.unique(value[0]).tolist()) == {-np.inf, np.inf, 0.0, 2.0, -4.0}
    assert 20 < (value[1] == 0).sum() < 80
    assert np.isnan(value[1][value[1] != 0]).all()
    assert (gradient == np.where(value == 0, 0, [[np.inf], [2.0]])).all()


@pytest.mark.parametrize("rate", [np.float32(0.25), np.float64(0.25), np.float16(0.25)], ids=repr)
def test_numbers_of_numpy_are_rates(run: Run, rate: Any) -> None:
    out = Dropout(tf.ones([1000]), rate=rate, training=True)
    assert np.unique(run(out)).tolist() == [0.0, np.float32(1 / 0.75)]


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("dtype", [tf.float32, tf.float16], ids=lambda dtype: dtype.name)
def test_a_rate_may_be_a_tensor(graph: tf.Graph, seed: int | None, dtype: tf.DType) -> None:
    rate = tf.placeholder(tf.float32, [])
    with TowerContext("", is_training=True, random_seed=seed, step=tf.constant(7)):
        out = Dropout("d", tf.ones([40, 100], dtype), rate=rate)
    assert out.dtype == dtype
    with tf.Session() as session:
        for value in (0.0, 0.25, 0.75):
            drawn = session.run(out, {rate: value})
            assert (drawn == 0).mean() == pytest.approx(value, abs=0.05)
            assert drawn.max() == pytest.approx(1 / (1 - value), rel=1e-3)
        for value in (-0.5, 1.0, np.nan):
            with pytest.raises(
                tf.errors.InvalidArgumentError, match="rate must be in 0 <= rate < 1, received"
            ):
                session.run(out, {rate: value})


def test_a_rate_may_be_a_variable_and_draws_as_the_number_does(run: Run) -> None:
    rate = tf.get_variable("rate", [], initializer=tf.constant_initializer(0.25), trainable=False)
    outs = []
    for index, given in enumerate((rate, 0.25)):
        reuse = True if index else None
        with TowerContext(f"t{index}", is_training=True, random_seed=3, step=tf.constant(7), reuse=reuse):
            outs.append(Dropout("d", tf.ones([1000]), rate=given))
    first, second = run(outs)
    assert (first == second).all()


def test_noise_shape_with_an_unknown_batch(run: Run) -> None:
    x = tf.placeholder(tf.float32, [None, 30])
    out = Dropout(x, noise_shape=[None, 1], training=True)
    rows = run(out, {x: np.ones([20, 30])})
    assert (rows == rows[:, :1]).all()
    assert np.unique(rows).tolist() == [0.0, 2.0]
