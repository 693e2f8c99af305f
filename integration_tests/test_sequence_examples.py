"""The examples of sequences learn; only `examples` runs this."""

import re

import pytest


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
