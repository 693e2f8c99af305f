"""The examples of images/ that look into networks or change how they compute: they reach their figures."""

import gzip
import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf


@pytest.fixture
def run_here(run_image_example):
    """Runs a script in this process; returns the numbers of its last line."""
    return lambda *arguments: [
        float(number) for number in re.findall(r"\d\.\d{4}", run_image_example(*arguments))
    ]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("script", ["cam.py", "saliency.py"])
def test_maps_lie_on_what_is_to_be_seen(run_here, tmp_path, script):
    share, area, accuracy = run_here(script, "--epochs", 3)
    assert share > 1.8 * area and accuracy > 0.3
    assert len(list(tmp_path.rglob("images/maps/*.png"))) == 3


@pytest.mark.slow
@pytest.mark.parametrize("cost", ["siamese", "cosine", "triplet"])
def test_like_digits_are_neighbours(run_here, tmp_path, cost):
    [accuracy] = run_here("similarity.py", "--cost", cost, "--epochs", 6)
    assert accuracy > 0.7  # of ten classes
    assert (tmp_path / "train_log" / "similarity" / "embeddings.png").stat().st_size > 1000


@pytest.mark.slow
@pytest.mark.long
def test_digits_are_read_once_they_are_straightened(run_here):
    [accuracy] = run_here("spatial_transformer.py", "--epochs", 40)
    assert accuracy > 0.6  # 0.51 to 0.56 with --plain


@pytest.mark.slow
def test_filters_are_made(run_here, tmp_path):
    made, fixed = run_here("dynamic_filter.py", "--epochs", 3, "--steps", 40)
    assert made < 0.05 < 0.3 < fixed  # nothing would be 1
    assert len(list(tmp_path.rglob("images/filters/*.png"))) == 3


def test_filters_are_turned_as_their_paper_says(image_example):
    steered = image_example("dynamic_filter").steered_filter
    along, across, both = steered(0), steered(np.pi / 2), steered(np.pi / 4)
    odd = both - (along + across) / 2
    assert np.allclose(across, along.T) and np.allclose(steered(np.pi), along, atol=1e-6)
    for angle in (0.3, 2.0, 5.0):
        cos, sin = np.cos(angle), np.sin(angle)
        expected = cos**2 * along + sin**2 * across + 2 * cos * sin * odd
        assert np.allclose(steered(angle), expected, atol=1e-5)


def test_each_picture_has_its_filter(image_example):
    dynamic = image_example("dynamic_filter")
    steer, rng = dynamic.Steer(0.8, 1), np.random.default_rng(0)
    picture = rng.integers(0, 256, (50, 60), np.uint8)
    parts, angles, wanted = zip(*(steer([picture], rng) for _ in range(5)), strict=True)
    share = np.array(angles) / (2 * np.pi) * dynamic.SECTORS % 1
    assert (share >= 0.8 - 1e-4).all()
    filters = np.stack([dynamic.steered_filter(angle) for angle in angles])
    with tf.Graph().as_default(), tf.Session() as session:
        found = session.run(dynamic.apply_filters(tf.constant(np.stack(parts)), tf.constant(filters)))
    assert np.allclose(found, np.stack(wanted), atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("script", ["similarity.py", "spatial_transformer.py"])
def test_files_of_digits_are_read(run_here, tmp_path, script):
    write_mnist(tmp_path, train=64, t10k=40)
    assert run_here(script, "--data", tmp_path, "--epochs", 1, "--workers", 0)


def write_mnist(folder, **counts):
    for part, count in counts.items():
        images = np.random.default_rng(0).integers(0, 256, (count, 28, 28), np.uint8)
        for name, array in (("images-idx3", images), ("labels-idx1", np.arange(count, dtype=np.uint8) % 10)):
            head = bytes((0, 0, 8, array.ndim)) + np.array(array.shape, ">u4").tobytes()
            (folder / f"{part}-{name}-ubyte.gz").write_bytes(gzip.compress(head + array.tobytes()))


@pytest.mark.parametrize("script", ["cam.py", "saliency.py"])
def test_a_folder_without_boxes_is_refused(run_here, tmp_path, script):
    with pytest.raises(SystemExit, match=r"received --data .*leave it out"):
        run_here(script, "--data", tmp_path)


@pytest.mark.slow
@pytest.mark.long
def test_few_bits_learn(run_here):
    [accuracy] = run_here("dorefa.py", "--epochs", 4)
    assert accuracy > 0.3


def test_numbers_of_few_bits(image_example):
    dorefa = image_example("dorefa")
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant(np.linspace(-2, 2, 101), tf.float32)
        one, two, eight = (session.run(dorefa.quantize_weights(x, bits)) for bits in (1, 2, 8))
        rounded = dorefa.quantize(tf.clip_by_value(x, 0, 1), 2)
        (slope,) = tf.gradients(rounded, x)
        assert np.allclose(np.unique(session.run(rounded)), [0, 1 / 3, 2 / 3, 1])
        assert session.run(slope)[60] == 1  # as if it were not rounded
    assert np.allclose(np.unique(one), [-np.abs(np.linspace(-2, 2, 101)).mean(), np.abs(one).max()])
    assert len(np.unique(two)) == 4 and len(np.unique(eight)) + 10 > 100 and np.abs(eight).max() <= 1


def test_gradients_of_few_bits_are_right_on_average(image_example):
    dorefa = image_example("dorefa")
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        x, wanted = tf.zeros([4000, 3]), tf.constant([1.0, -0.4, 0.15])
        (gradient,) = tf.gradients(
            dorefa.quantize_gradient(x, 2), x, grad_ys=tf.tile(wanted[None], [4000, 1])
        )
        found = session.run(gradient)
    assert len(np.unique(found.round(4))) <= 4
    assert np.allclose(found.mean(0), [1, -0.4, 0.15], atol=0.03)
