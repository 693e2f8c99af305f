"""The examples of images/ that train on known data sets: they reach their figures on images drawn there."""

import re

import cv2
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from scipy.io import savemat

from towerpack_dataflow import DataFromList
from towerpack_layers import TowerContext

# The figure of each script, its lower limit, and the epochs to reach it.
FIGURES = {
    "cifar10_resnet.py": ("accuracy", 0.75, 6),
    "svhn.py": ("accuracy", 0.7, 3),
    "imagenet_resnet.py": ("accuracy", 0.7, 4),
    "hed.py": ("F-measure", 0.6, 3),
}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("script", FIGURES)
def test_a_script_reaches_its_figure(run_image_example, script):
    name, least, epochs = FIGURES[script]
    reached = re.fullmatch(rf"{name} ([01]\.\d{{4}})", run_image_example(script, "--epochs", epochs))
    assert float(reached[1]) > least


@pytest.mark.slow
def test_mixed_images_of_files_train(run_image_example, image_example, tmp_path):
    image_example("made_files").make_cifar10(tmp_path, training=50, test=10)
    options = ["--data", tmp_path, "--mixup", "--epochs", 1, "--batch", 10, "--workers", 0]
    assert run_image_example("cifar10_resnet.py", *options).startswith("accuracy ")


@pytest.mark.long
@pytest.mark.slow
def test_random_numbers_train(run_image_example, tmp_path):
    options = ["--data", tmp_path, "--epochs", 1, "--size", 16, "--width", 4, "--batch", 8, "--preact"]
    assert re.fullmatch(r"\d+ images/s", run_image_example("imagenet_resnet.py", "--fake", *options))


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["folders", pytest.param("lists", marks=pytest.mark.long)])
def test_files_of_images_train(run_image_example, tmp_path, layout):
    rng, options = np.random.default_rng(0), []
    names = {
        "train": ["n00000000/0.jpg", "n00000000/1.jpg", "n00000001/2.jpg", "n00000001/3.jpg"],
        "val": ["n00000000/4.jpg", "n00000001/5.jpg"] if layout == "folders" else ["4.jpg", "5.jpg"],
    }
    for part, files in names.items():
        for file in files:
            (tmp_path / part / file).parent.mkdir(parents=True, exist_ok=True)
            cv2.imwrite(str(tmp_path / part / file), rng.integers(0, 256, (20, 30, 3), np.uint8))
        lines = [f"{file} {number * 2 // len(files)}\n" for number, file in enumerate(files)]
        (tmp_path / f"{part}.txt").write_text("".join(lines))
    if layout == "lists":
        for file in ("synsets.txt", "synset_words.txt"):
            (tmp_path / file).write_text("".join(f"n{number:08} word\n" for number in range(1000)))
        options = ["--lists", tmp_path]
    options += ["--size", 16, "--batch", 2, "--epochs", 1, "--width", 4, "--workers", 0]
    figure = run_image_example("imagenet_resnet.py", "--data", tmp_path, *options)
    assert re.fullmatch(r"accuracy [01]\.\d{4}", figure)


@pytest.mark.long
@pytest.mark.slow
def test_photographs_with_drawn_edges_train(run_image_example, tmp_path):
    rng, data = np.random.default_rng(0), tmp_path / "BSR" / "BSDS500" / "data"
    for part in ("train", "test"):
        for folder in (data / "images" / part, data / "groundTruth" / part):
            folder.mkdir(parents=True)
        image, edges = (
            rng.integers(0, 256, (321, 481, 3), np.uint8),
            rng.integers(0, 2, (2, 321, 481), np.uint8),
        )
        cv2.imwrite(str(data / "images" / part / "1.jpg"), image)
        people = np.empty((1, 2), object)
        people[0] = [{"Boundaries": drawn} for drawn in edges]
        savemat(data / "groundTruth" / part / "1.mat", {"groundTruth": people})
    options = ["--unit", 112, "--width", 1, "--steps", 1, "--epochs", 1, "--workers", 0]
    assert re.fullmatch(r"F-measure 0\.\d{4}", run_image_example("hed.py", "--data", tmp_path, *options))


def test_mixed_labels_are_shares_of_classes(image_example, tmp_path):
    image_example("made_files").make_cifar10(tmp_path, training=50, test=10)
    flow, held_out, mean = image_example("cifar10_resnet").make_flows(tmp_path, 16, 0, mixup=True)
    flow.seed(7)
    images, shares = next(iter(flow))
    assert images.shape == (16, 32, 32, 3) and images.dtype == np.uint8
    assert shares.shape == (16, 10) and np.allclose(shares.sum(1), 1)
    # Some pictures may be mixed with one of the same class, but not all.
    assert (shares.max(1) < 1).mean() > 0.5
    assert mean.shape == (32, 32, 3)
    (_, labels), *_ = held_out
    assert sorted(labels.argmax(1)) == list(range(10))


def test_images_and_masks_are_moved_alike(image_example):
    hed, rng = image_example("hed"), np.random.default_rng(0)
    masks = [image_example("drawn_images").edge_image((96, 128), rng)[1] for _ in range(20)]
    pairs = DataFromList([[np.repeat(mask[..., None] * np.uint8(255), 3, 2), mask] for mask in masks])
    flow, held_out = hed.make_flows(pairs, pairs, unit=16, workers=0)
    for images, edges in (batch for flow in (flow, held_out) for batch in take(flow, 3)):
        assert images.shape[:3] == edges.shape and not any(size % 16 for size in edges.shape[1:])
        # Images are interpolated and masks are not; whatever moved them apart would leave little in common.
        found = (
            images[..., 0]
            > images.min((1, 2, 3))[:, None, None] / 2 + images.max((1, 2, 3))[:, None, None] / 2
        )
        assert np.mean(found == edges) > 0.95 and edges.any()


def take(flow, count):
    return [batch for _, batch in zip(range(count), flow)]


def test_the_best_threshold_counts(image_example):
    measure = image_example("edge_measures").BestFMeasure()
    edges = np.array([[[1, 1, 0, 0], [0, 0, 0, 0]]], np.uint8)
    figures = []
    for probability in (0.1 + 0.2 * edges, np.full(edges.shape, 0.5), 0.3 * (1 - edges)):
        measure._before_inference()
        measure._on_fetches([probability, edges], 1)
        figures.append(measure._after_inference()["validation_f"])
    # Exact; all is found, a quarter of which is right; what is found last is right.
    assert figures == pytest.approx([1, 0.4, 0.4])


def test_residual_networks_for_cifar_are_of_the_known_size(image_example):
    with tf.Graph().as_default(), TowerContext("", is_training=True):
        image_example("residual_networks").cifar_resnet(tf.placeholder(tf.float32, [None, 32, 32, 3]), 3, 10)
        variables = tf.trainable_variables()
    layers = [v for v in variables if v.op.name.endswith("/W") and "convshortcut" not in v.op.name]
    assert len(layers) == 20
    # He et al. have 0.27 million, without convolutions as shortcuts.
    assert sum(v.shape.num_elements() for v in variables) == pytest.approx(0.27e6, rel=0.03)
