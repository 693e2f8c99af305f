"""The examples that make and translate pictures: they run on folders of files, and their checks can fail."""

import json
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from PIL import Image

from towerpack_callbacks.checkpoint import load_variables

FIGURES = {
    "wgan_gp.py": "Fréchet distance ",
    "began.py": "measure of convergence ",
    "cyclegan.py": "cycle loss ",
    "image2image.py": "L1 ",
}
FOLDERS = {
    "began.py": [("", 8)],
    "cyclegan.py": [("trainA", 8), ("trainB", 8), ("testA", 8), ("testB", 8)],
    "image2image.py": [("train", 16), ("test", 16)],
}


@pytest.fixture
def run_here(gan_example, monkeypatch, capsys, tmp_path):
    """Runs a script in this process, in an empty directory; returns the last line that it prints."""
    monkeypatch.chdir(tmp_path)

    def to_the_end(script, *arguments):
        monkeypatch.setattr(sys, "argv", [script, *map(str, arguments)])
        runpy.run_path(str(Path(gan_example("pictures").__file__).with_name(script)), run_name="__main__")
        return capsys.readouterr().out.splitlines()[-1]

    return to_the_end


def write_pictures(folder, width, count=80):
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        pixels = rng.integers(0, 256, (10, width + 2, 3), np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "script",
    [
        *(pytest.param(name, marks=pytest.mark.long) for name in ("wgan_gp.py", "began.py", "cyclegan.py")),
        "image2image.py",
    ],
)
def test_a_script_trains_and_evaluates_its_checkpoint_to_the_same_figure(script, run_here, tmp_path):
    options = []
    for name, width in FOLDERS.get(script, []):
        write_pictures(tmp_path / "pictures" / name, width)
        options = ["--data", tmp_path / "pictures", "--size", 8]
    figure = run_here(script, "--epochs", 1, "--seed", 3, *options)
    assert figure.startswith(FIGURES[script])
    log_dir = tmp_path / "train_log" / script.removesuffix(".py")
    result = json.loads((log_dir / "result.json").read_text(encoding="utf-8"))
    assert result["figure"] == figure
    assert result["options"]["seed"] == "3"
    assert np.isfinite(list(result["figures"].values())).all()
    assert run_here(script, "--evaluate") == figure
    if script == "began.py":
        assert 0 <= load_variables(log_dir)["discrim/k"] <= 1


@pytest.mark.parametrize("script", FOLDERS)
def test_a_folder_without_pictures(script, run_here, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "notes.txt").write_text("none here")
    with pytest.raises(SystemExit, match=r"No pictures in .*empty.*Expected files \.bmp, "):
        run_here(script, "--data", tmp_path / "empty")


def test_features_are_matched_by_their_means(gan_example):
    disco = gan_example("cyclegan").DiscoGAN(8)
    rng = np.random.default_rng(0)
    real, fake = ([rng.normal(size=(6, 3)).astype(np.float32) for _ in range(3)] for _ in range(2))
    with tf.Graph().as_default(), tf.Session() as session:
        costs = disco.costs([tf.constant(part) for part in real], [tf.constant(part) for part in fake])
        squared = disco.distance(tf.constant(real[0]), tf.constant(fake[0]))
        found = session.run([costs.generator, costs.discriminator, squared])
    apart = sum(((real[layer].mean(0) - fake[layer].mean(0)) ** 2).mean() for layer in (0, 1))
    fooled, told = np.log1p(np.exp(-fake[2])).mean(), np.log1p(np.exp([-real[2], fake[2]])).mean((1, 2)).sum()
    assert np.allclose(
        found, [0.1 * fooled + 0.9 * apart, told, ((real[0] - fake[0]) ** 2).mean()], atol=1e-5
    )


def test_a_file_that_is_no_picture(gan_example, tmp_path):
    (tmp_path / "broken.png").write_bytes(b"\x89PNG")
    with pytest.raises(ValueError, match=r"Pillow cannot read the picture .*broken\.png"):
        gan_example("pictures").read_picture(tmp_path / "broken.png", (8, 8))


def constant(pictures, like):
    """As many pictures as there are in `like`, which all are the best single one."""
    return np.broadcast_to(np.median(pictures, axis=0), like.shape)


def noise(like):
    """Pictures of an untrained generator: nearly grey."""
    return np.random.default_rng(1).normal(0, 0.1, like.shape).astype(np.float32)


@pytest.fixture
def judges(gan_example):
    """The module of the criteria, and held-out digits to judge by."""
    return gan_example("picture_evaluation"), gan_example("pictures").digit_pictures("test", 16)


def test_generated_pictures_must_be_varied_and_like_real_ones(judges):
    module, real = judges
    half = len(real) // 2
    good = module.judge_pictures(real[:half], noise(real[:half]), real[half:], 5.0)
    assert good.passed
    assert not any(module.judge_pictures(noise(real), noise(real), real, 1.0).criteria.values())
    collapsed = module.judge_pictures(np.repeat(real[:1], half, 0), noise(real[:half]), real[half:], 5.0)
    assert not collapsed.criteria["20 % coverage"]
    assert not collapsed.passed


def test_translations_must_come_back_and_be_of_the_other_kind(judges):
    module, a = judges
    b = -a
    half = len(a) // 2

    def judge(to_b, to_a, back_of_a, back_of_b):
        loss, at_first = (
            np.mean([np.abs(one - x).mean() for one, x in zip(backs, (a, b))])
            for backs in ((back_of_a, back_of_b), (noise(a), noise(b)))
        )
        return module.judge_cycle(loss, at_first, [(a, to_b, b[half:]), (b, to_a, a[half:])])

    near = noise(a) / 10
    assert judge(-a, -b, a + near, b + near).passed
    assert not any(judge(noise(b), noise(a), noise(a), noise(b)).criteria.values())
    assert not judge(constant(b, b), constant(a, a), constant(a, a), constant(b, b)).passed
    unchanged = judge(a, b, a + near, b + near)
    assert list(unchanged.criteria.values()) == [True, False]


def test_translations_must_be_the_wanted_ones(judges):
    module, wanted = judges
    assert module.judge_pairs(wanted + noise(wanted), noise(wanted), wanted).passed
    assert not any(module.judge_pairs(noise(wanted), noise(wanted), wanted).criteria.values())
    assert not any(module.judge_pairs(constant(wanted, wanted), noise(wanted), wanted).criteria.values())
