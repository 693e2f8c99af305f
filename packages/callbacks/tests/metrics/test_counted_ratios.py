"""Counted ratios are those of all batches at once."""

from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from towerpack_callbacks import SamplesError
from towerpack_callbacks.metrics import BinaryStatistics, RatioCounter

BATCHES = st.lists(st.lists(st.tuples(st.booleans(), st.booleans())), max_size=6)


@given(BATCHES)
def test_batches_count_as_one(batches):
    counted, right = BinaryStatistics(), RatioCounter()
    for batch in batches:
        said, so = np.array(batch, bool).reshape(-1, 2).T
        counted.feed(said, so)
        right.feed(int(np.sum(said == so)), len(said))
    said, so = np.array(list(chain.from_iterable(batches)), bool).reshape(-1, 2).T
    assert right.ratio == (np.mean(said == so) if len(said) else 0)
    for ratio, of, among in [
        (counted.precision, so, said),
        (counted.recall, said, so),
        (counted.false_positive_rate, said, ~so),
        (counted.false_negative_rate, ~said, so),
    ]:
        assert ratio == pytest.approx(of[among].mean() if among.any() else 0)
    if counted.precision + counted.recall:
        harmonic = 2 * counted.precision * counted.recall / (counted.precision + counted.recall)
        assert counted.f1 == pytest.approx(harmonic)


def test_a_reset_forgets():
    counted, ratio = BinaryStatistics(), RatioCounter()
    counted.feed([1.0, 0.0], [1, 1])
    ratio.feed(1)
    for what in (counted, ratio):
        what.reset()
    assert (counted.recall, counted.f1, ratio.ratio, ratio.total) == (0, 0, 0, 0)


@pytest.mark.parametrize("arguments", [(2, 1), (-1, 1), (0.5, 1), (True, 1), ("1", 2), (1, None)])
def test_a_wrong_count_is_refused(arguments):
    ratio = RatioCounter()
    with pytest.raises(SamplesError, match=r"0 <= count <= total; received count="):
        ratio.feed(*arguments)
    assert ratio.total == 0


@pytest.mark.parametrize(
    ("predictions", "labels", "message"),
    [
        ([0, 2], [0, 1], r"predictions must be bool, or 0 and 1; received \[0, 2\]"),
        ([0, 1], [0, np.nan], "labels must be"),
        (["a"], [1], "predictions must be"),
        ([0, 1], [1], r"shape \(2,\), and labels have shape \(1,\)"),
    ],
)
def test_values_that_are_not_binary_are_refused(predictions, labels, message):
    with pytest.raises(SamplesError, match=message):
        BinaryStatistics().feed(predictions, labels)
