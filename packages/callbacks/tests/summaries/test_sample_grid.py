"""Pictures of samples over time: what is in them, the same inputs after a resume, errors."""

import json

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import (
    EMA,
    BatchVariance,
    CallbackFactory,
    CheckpointError,
    Monitor,
    SampleGrid,
    TensorNotFoundError,
    image_grid,
)
from towerpack_callbacks.loop import PlainLoop
from towerpack_callbacks.writing import encode_png, find_pictures


def make_generator(callback):
    """A generator of pictures of 2 x 2 pixels, whose brightness is z plus the number of steps."""
    with tf.name_scope(None):
        weight = callback.graph.get_tensor_by_name("weight/Read/ReadVariableOp:0")
        z = tf.placeholder_with_default(tf.random.normal([5, 1]), [None, 1], name="z")
        label = tf.placeholder_with_default(tf.zeros([1], tf.int32), [None], name="label")
        bright = z[:, 0] + weight + tf.cast(label, tf.float32)
        tf.tile(bright[:, None, None, None], [1, 2, 2, 3], name="fake")
        tf.tile(bright[:, None, None], [1, 2, 2], name="grey")
        tf.placeholder(tf.float32, [None, None], name="unknown")


def generator():
    return CallbackFactory(setup_graph=make_generator)


class Images(Monitor):
    """Keeps the images."""

    def __init__(self):
        self.seen = []

    def process_summary(self, summary, global_step):
        self.seen += [(value.tag, global_step) for value in summary.value if value.HasField("image")]


def train(log_dir, *callbacks, max_epoch=2):
    log_dir.mkdir(exist_ok=True)
    loop = PlainLoop([generator(), *callbacks], 3, max_epoch, log_dir)
    loop.train()
    return {step: path.read_bytes() for step, path in find_pictures(log_dir).get("samples", [])}


def expected(z, weight, columns):
    values = (z + np.float32(weight)).astype(np.float32)
    return encode_png(image_grid(np.tile(values[:, :, None, None], [1, 2, 2, 3]), columns, (-1, 1)))


def test_pictures_show_the_same_inputs_over_time(tmp_path):
    images, grid = Images(), SampleGrid("fake", rows=2, columns=3)
    pictures = train(tmp_path, grid, images)
    z = np.random.default_rng(0).standard_normal((6, 1)).astype(np.float32)
    weights = {step: 1 - 0.8**step for step in (3, 6)}
    assert pictures == {step: expected(z, weight, 3) for step, weight in weights.items()}
    assert images.seen == [("samples", 3), ("samples", 6)]


def test_the_averages_make_other_pictures(tmp_path):
    ema = EMA(0.0, every="2 steps")  # the weights of step 2 are shown after step 3
    pictures = train(tmp_path, ema, ema.applied_to(SampleGrid("fake", rows=2, columns=3)), max_epoch=1)
    z = np.random.default_rng(0).standard_normal((6, 1)).astype(np.float32)
    assert pictures == {3: expected(z, 1 - 0.8**2, 3)}


def test_labels_and_a_custom_distribution(tmp_path):
    inputs = {"label": [0, 0, 1, 1], "z": lambda random, shape: np.full(shape, -0.5)}
    grid = SampleGrid("grey", inputs, rows=2, columns=2, value_range=(-2, 2), name="digits")
    train(tmp_path, grid, max_epoch=1)
    [(_, path)] = find_pictures(tmp_path)["digits"]
    bright = np.float32([-0.5, -0.5, 0.5, 0.5]) + np.float32(1 - 0.8**3)
    values = np.tile(bright[:, None, None], [1, 2, 2])
    assert path.read_bytes() == encode_png(image_grid(values, 2, (-2, 2)))


def test_a_resumed_run_uses_the_same_inputs_and_removes_later_pictures(tmp_path):
    first = SampleGrid("fake", seed=3)
    before = train(tmp_path, first)
    saved = json.loads(json.dumps(first.state_dict()))
    again = SampleGrid("fake", seed=4)
    loop = PlainLoop([generator(), again], 3, 1, tmp_path)
    again.load_state_dict(saved)
    loop.train()
    after = {step: path.read_bytes() for step, path in find_pictures(tmp_path)["samples"]}
    assert after == {3: before[3]}
    assert again.state_dict() == saved


def test_another_seed_draws_others(tmp_path):
    one, other = (train(tmp_path / str(seed), SampleGrid("fake", seed=seed)) for seed in (1, 2))
    assert one[3] != other[3]


def test_inputs_of_another_size_do_not_fit_a_checkpoint(tmp_path):
    saved, here = SampleGrid("fake"), SampleGrid("fake", rows=3)
    PlainLoop([generator(), saved, here], 3, 1, tmp_path)
    with pytest.raises(
        CheckpointError, match=r"\{'z': \(24, 1\)\}; those of the checkpoint have \{'z': \(64, 1\)\}"
    ):
        here.load_state_dict(saved.state_dict())


@pytest.mark.parametrize(
    ("grid", "error", "message"),
    [
        (lambda: SampleGrid("fake", rows=0), ValueError, r"SampleGrid\(rows=0\): expected a whole number"),
        (lambda: SampleGrid("fake", columns=1.5), ValueError, r"columns=1.5\): expected a whole number"),
        (lambda: SampleGrid("fake", value_range=(1, -1)), ValueError, "two numbers, the lower first"),
        (lambda: SampleGrid("fake", name="a/b"), ValueError, "expected the name of a folder"),
        (
            lambda: SampleGrid("fake", {"z": "normal"}),
            TypeError,
            "takes an array or a function, received 'normal'",
        ),
        (lambda: SampleGrid("fake", {"label": [1, 2]}), ValueError, r"has shape \(2,\): expected 64 rows"),
    ],
)
def test_arguments_that_are_wrong(grid, error, message):
    with pytest.raises(error, match=message):
        grid()


@pytest.mark.parametrize(
    ("grid", "error", "message"),
    [
        (SampleGrid("nothing"), TensorNotFoundError, "no tensor 'nothing:0'"),
        (SampleGrid("fake", {"noise": lambda random, shape: 0}), TensorNotFoundError, "no tensor 'noise:0'"),
        (
            SampleGrid("fake", {"unknown": lambda random, shape: 0}),
            ValueError,
            "has shape .*Give it a static shape",
        ),
        (SampleGrid("fake", {"z": lambda random, shape: np.zeros(3)}), ValueError, "expected 64 rows"),
        (
            SampleGrid("costs"),
            ValueError,
            r"SampleGrid\('costs'\) takes images of shape .*received shape \(1,\)",
        ),
    ],
)
def test_graphs_that_do_not_fit(grid, error, message, tmp_path):
    with pytest.raises(error, match=message):
        train(tmp_path, grid)


def test_a_run_without_a_directory():
    with pytest.raises(ValueError, match=r"has nowhere to write: give log_dir="):
        PlainLoop([generator(), SampleGrid("fake")], 3, 1, None)


def test_a_grid_of_images():
    images = np.arange(5)[:, None, None] * np.ones((5, 2, 3))
    grid = image_grid(images, columns=3, value_range=(0, 4), border=1, background=9)
    assert grid.shape == (7, 13, 1) and grid.dtype == np.uint8
    np.testing.assert_array_equal(grid[0], 9)
    np.testing.assert_array_equal(grid[2, :, 0], [9, 0, 0, 0, 9, 64, 64, 64, 9, 128, 128, 128, 9])
    np.testing.assert_array_equal(grid[5, :, 0], [9, 191, 191, 191, 9, 255, 255, 255, 9, 9, 9, 9, 9])


def test_values_out_of_range_are_clipped_and_nan_is_the_middle():
    row = np.array([-np.inf, -2, np.nan, 2, np.inf]).reshape(1, 1, 5)
    np.testing.assert_array_equal(image_grid(row, 1, (-1, 1), border=0).ravel(), [0, 0, 128, 255, 255])


@pytest.mark.parametrize("shape", [(4,), (4, 2, 2, 5), (0, 2, 2), (1, 2, 2, 2, 1)])
def test_shapes_that_are_not_images(shape):
    with pytest.raises(ValueError, match="image_grid takes images of shape"):
        image_grid(np.zeros(shape), 2)


def test_columns_and_ranges_of_a_grid():
    with pytest.raises(ValueError, match=r"columns=0\): expected a whole number"):
        image_grid(np.zeros((1, 2, 2)), 0)
    with pytest.raises(ValueError, match="the lower one first"):
        image_grid(np.zeros((1, 2, 2)), 1, (3, 3))


def test_the_variance_over_a_batch(tmp_path):
    def make(callback):
        with tf.name_scope(None):
            tf.constant([[1, 10], [3, 10]], name="features")
            tf.constant(1.0, name="scalar")

    factory = CallbackFactory(setup_graph=make)
    loop = PlainLoop([factory, BatchVariance("features:0")], 3, 2, tmp_path)
    loop.train()
    assert loop.monitors.get_history("features_variance") == [(3, 0.5), (6, 0.5)]
    with pytest.raises(ValueError, match="expected a tensor with a batch axis, not a scalar"):
        PlainLoop([factory, BatchVariance("scalar")], 3, 2, tmp_path)
