"""The examples of sequences learn; only `examples` runs this."""

import importlib
import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import TowerContext


@pytest.fixture
def example(monkeypatch, pytestconfig):
    """The modules of the examples of sequences, by name; they import one another."""
    monkeypatch.syspath_prepend(str(pytestconfig.rootpath / "examples" / "sequence"))
    return importlib.import_module


@pytest.fixture
def word_model(example, monkeypatch):
    """Evaluates the model of words, window by window, with weights that are always the same."""
    ptb = example("ptb")

    def costs(times, windows, reset_before=None):
        monkeypatch.setattr(ptb, "TIMES", times)
        found = []
        with tf.Graph().as_default(), tf.Session() as session:
            tf.set_random_seed(0)
            model = ptb.WordModel(50)
            inputs = [tf.placeholder(spec.dtype, spec.shape, spec.name) for spec in model.inputs()]
            with TowerContext("", is_training=False):
                cost = model.build_graph(*inputs)
            weights = tf.trainable_variables()
            session.run(tf.global_variables_initializer())
            for number, weight in enumerate(weights):
                drawn = np.random.default_rng(number).normal(0, 0.3, weight.shape.as_list())
                weight.load(drawn, session)
            for number, window in enumerate(windows):
                if number == reset_before:
                    session.run(ptb.carried_state().initializer)
                found.append(session.run(cost, dict(zip(inputs, (window[:, :-1], window[:, 1:])))))
        return found

    return costs


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_lines_of_digits_are_read(run_example_of):
    line = run_example_of("sequence", "ctc.py", "--epochs", 2)
    greedy, beam = (float(number) for number in re.findall(r"\d\.\d{4}", line))
    # Who reads nothing has 1.
    assert beam <= greedy + 0.01 and beam < 0.15, line


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_words_are_foreseen(run_example_of):
    line = run_example_of("sequence", "ptb.py", "--epochs", 1)
    reached, pairs, words = (float(number) for number in re.findall(r"\d+\.\d", line))
    assert pairs < words and reached < 0.75 * words, line


@pytest.mark.slow
def test_the_state_goes_from_window_to_window(word_model):
    """Two windows cost what the window of both of them costs, until the state is reset."""
    words = np.random.default_rng(0).integers(0, 50, (16, 41))
    (both,) = word_model(40, [words])
    first, second, again = word_model(20, [words[:, :21], words[:, 20:], words[:, 20:]], reset_before=2)
    assert (first + second) / 2 == pytest.approx(both, abs=1e-5)
    assert abs(again - second) > 1e-4


@pytest.mark.slow
def test_a_text_of_python(example, tmp_path):
    words = example("words")
    words.write_text(tmp_path, vocabulary=500)
    numbers, count = words.read_words(tmp_path)
    assert count == 500 and len(numbers["train"]) > 100_000
    for split in ("valid", "test"):
        text = numbers[split]
        assert len(text) > 5000 and text.max() < 500
        pairs, single = (
            measure(numbers["train"], text, count)
            for measure in (words.bigram_perplexity, words.unigram_perplexity)
        )
        assert 10 < pairs < 0.7 * single < 500
