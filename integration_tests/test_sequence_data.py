"""The data of the examples of sequences: lines of digits, texts, and models that count words."""

import importlib

import numpy as np
import pytest

from towerpack_dataflow import LMDBSerializer
from towerpack_dataflow.datasets import Digits


@pytest.fixture
def example(monkeypatch, pytestconfig):
    """The modules of the examples of sequences, by name; they import one another."""
    monkeypatch.syspath_prepend(str(pytestconfig.rootpath / "examples" / "sequence"))
    return importlib.import_module


@pytest.fixture
def lines(example, monkeypatch, tmp_path):
    """The module that draws lines, and a folder with few of them."""
    module = example("handwritten_lines")
    monkeypatch.setattr(module, "LINES", {"train": 60, "test": 20})
    module.write_lines(tmp_path)
    return module, tmp_path


def test_lines_show_their_digits(example):
    """Digits that nothing hides are in the strip, one after the other."""
    digits = list(Digits("test", shuffle=False))
    for seed in range(20):
        strip, labels = example("handwritten_lines").draw_line(digits, np.random.default_rng(seed))
        assert strip.shape[1] == 12 and strip.dtype == np.uint8 and 3 <= len(labels) <= 8
        images = [np.round(255 * image.T) for image, label in digits if label == labels[0]]
        # The first one begins within 3 columns, and the second one hides 2 columns of it at most.
        found = [
            np.array_equal(strip[start : start + 6, top : top + 8], image[:6])
            for image in images
            for start in range(4)
            for top in range(5)
        ]
        assert sum(found) >= 1


def test_lines_are_read_as_they_were_written(lines):
    module, folder = lines
    stored = list(LMDBSerializer.load(folder / "train.lmdb", shuffle=False))
    read = list(module.read_lines(folder, "train"))
    assert len(read) == 60
    columns = np.concatenate([strip for strip, _, _ in read])
    assert np.allclose(columns.mean(0), 0, atol=1e-5) and np.allclose(columns.std(0), 1, atol=1e-5)
    for (strip, labels), (normal, width, same) in zip(stored, read):
        assert width == len(strip) == len(normal) and np.array_equal(labels, same)


def test_batches_hold_lines_of_about_the_same_width(lines):
    module, folder = lines
    flow, held_out = module.make_flows(folder, batch=4)
    count = padding = 0
    for strip, width, labels in flow:
        assert strip.shape[1] == width.max() and strip.shape[0] == len(width) == len(labels)
        assert all(not row[w:].any() for row, w in zip(strip, width)) and labels.min() >= -1
        count += len(width)
        padding += (strip.shape[1] - width).sum()
    assert count == 60 and padding < 0.25 * sum(len(row[0]) for row in module.read_lines(folder, "train"))
    ((strip, width, labels),) = held_out
    assert len(strip) == 20 and set(np.unique(labels)) <= set(range(-1, 10))


def test_counted_words(example):
    words = example("words")
    text = np.array([0, 1, 0, 1, 0, 2], np.int32)
    # Each counts once more than it occurs: 4, 3 and 2 of 9.
    assert words.unigram_perplexity(text, np.array([0, 2]), 3) == pytest.approx(((4 / 9) * (2 / 9)) ** -0.5)
    # After 0 came 1, 1 and 2, which give 3/4 each to all; these come after 1, 1 and 1 words (and one more).
    known = (2 - 0.75) / 3 + 0.75 * 2 / 3 * (2 / 6)
    assert words.bigram_perplexity(text, np.array([0, 1]), 3) == pytest.approx(1 / known)
    # After 2 nothing came.
    assert words.bigram_perplexity(text, np.array([2, 1]), 3) == pytest.approx(3)


def test_chances_of_pairs_sum_to_one(example):
    text = np.random.default_rng(0).integers(0, 7, 60).astype(np.int32)
    for first in range(8):
        chances = [1 / example("words").bigram_perplexity(text, np.array([first, w]), 8) for w in range(8)]
        assert sum(chances) == pytest.approx(1)


def test_files_of_words(example, tmp_path):
    words = example("words")
    for split, text in {"train": " a b a \n a c \n", "valid": " d b \n", "test": " c \n"}.items():
        (tmp_path / f"ptb.{split}.txt").write_text(text)
    numbers, count = words.read_words(tmp_path)
    assert count == 5  # <unk> is one of them
    assert {split: text.tolist() for split, text in numbers.items()} == {
        "train": [0, 2, 0, 1, 0, 3, 1],
        "valid": [4, 2, 1],
        "test": [3, 1],
    }


def test_windows_follow_one_another(example):
    flow = example("words").Windows(np.arange(50, dtype=np.int32), streams=2, times=5)
    words, following = (np.concatenate(parts, 1) for parts in zip(*flow))
    assert np.array_equal(words, [range(20), range(20, 40)]) and np.array_equal(following, words + 1)
