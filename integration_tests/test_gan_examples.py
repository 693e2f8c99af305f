"""The examples of adversarial networks: short trainings, and their criteria."""

import json
from argparse import Namespace

import numpy as np
import pytest

from towerpack_trainers import OfflinePredictor, PredictConfig

DIGITS = {"dcgan": "DCGAN", "conditional": "ConditionalGAN", "infogan": "InfoGAN"}


@pytest.fixture(scope="module")
def classifier(gan_example):
    return gan_example("features").train_classifier()


@pytest.fixture(scope="module")
def judge(gan_example, classifier):
    """The criteria of an example, for pictures of ten classes, and as many of an untrained generator."""
    evaluation = gan_example("evaluation")

    def judge_pictures(name, images, labels, untrained):
        if name == "dcgan":
            return evaluation.judge_digits(images, untrained, classifier)
        if name == "conditional":
            return evaluation.judge_labels(images, labels, classifier)
        return evaluation.judge_codes(images, 9 - labels, classifier)

    return judge_pictures


@pytest.fixture(scope="module")
def real(gan_example):
    """The digits that examples train on, sorted by label, and their labels."""
    images, labels = gan_example("digits").digit_arrays("train")
    order = np.argsort(labels, kind="stable")
    return images[order], labels[order]


@pytest.fixture(scope="module")
def noise_pictures(real):
    return np.random.default_rng(0).uniform(-1, 1, real[0].shape).astype(np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("name", DIGITS)
def test_criteria_are_met_by_real_digits_alone(judge, real, noise_pictures, name):
    images, labels = real
    assert judge(name, images, labels, noise_pictures).passed
    assert not judge(name, noise_pictures, labels, noise_pictures).passed

    same = np.repeat(images[:1], len(images), 0)
    assert not judge(name, same, labels, noise_pictures).passed
    # One picture of each class, over and over: the labels are right.
    of_each_class = images[np.searchsorted(labels, np.arange(10))][labels]
    verdict = judge(name, of_each_class, labels, noise_pictures)
    assert verdict.figures.get("agreement", 1) > 0.9
    assert not verdict.passed
    without_a_class = np.where((labels == 7)[:, None, None, None], images[:1], images)
    assert name != "dcgan" or not judge(name, without_a_class, labels, noise_pictures).passed


def test_criteria_of_the_mixture(gan_example):
    evaluation, example = gan_example("evaluation"), gan_example("mixture_grid")

    def passes(points):
        return evaluation.judge_mixture(points, example.CENTRES, example.STD).passed

    points = example.draw(np.random.default_rng(0), 2500)
    assert passes(points)
    left_out = (points[:, 0] > 3) & (points[:, 1] > 1)  # of two modes
    assert not passes(points[~left_out])
    assert not passes(np.repeat(points[:1], 2500, 0))
    wide = np.random.default_rng(0).normal(0, 0.05, size=(2500, 2)) + points
    assert not passes(wide)


@pytest.mark.slow
@pytest.mark.parametrize("name", DIGITS)
def test_an_untrained_generator_does_not_pass(gan_example, judge, name):
    example = gan_example(name)
    model = getattr(example, DIGITS[name])
    labels = np.repeat(np.arange(10, dtype=np.int32), 50)
    z = np.random.default_rng(0).normal(size=(len(labels), example.Z)).astype(np.float32)
    inputs = {"z": z}
    if name == "conditional":
        inputs["label"] = labels
    if name == "infogan":
        inputs |= {"code": labels, "numbers": np.zeros([len(labels), example.NUMBERS], np.float32)}
    config = PredictConfig(model=model(), input_names=list(inputs), output_names=["fake"])
    with OfflinePredictor(config) as predict:
        (images,) = predict(*inputs.values())
    assert not judge(name, images, labels, images).passed


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, figure, bound",
    [
        ("dcgan", "coverage", 0.5),
        pytest.param("conditional", "agreement", 0.5, marks=pytest.mark.long),
        pytest.param("infogan", "agreement", 0.4, marks=pytest.mark.long),
    ],
)
def test_a_short_training_on_digits(gan_example, tmp_path, name, figure, bound):
    example = gan_example(name)
    example.train(Namespace(seed=1, epochs=1, log_dir=tmp_path / "run"))
    verdict = example.evaluate(tmp_path / "run")
    assert verdict.figures[figure] > bound
    assert example.evaluate(tmp_path / "run") == verdict


@pytest.mark.long
@pytest.mark.slow
def test_the_command_line_trains_and_evaluates(run, tmp_path):
    output, errors = run("gan/mixture_grid.py", "--seed", 3, "--epochs", 1)
    last = output.splitlines()[-1]
    assert "epoch 1/1, step 2400: " in errors
    result = json.loads((tmp_path / "train_log" / "mixture_grid" / "result.json").read_text(encoding="utf-8"))
    assert result["figure"] == last
    assert result["figures"]["modes"] >= 12
    assert result["options"]["seed"] == "3"
    output, errors = run("gan/mixture_grid.py", "--evaluate")
    assert output.splitlines()[-1] == last
    assert "epoch" not in errors
