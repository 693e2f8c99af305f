import sys

import numpy as np
import pytest

from towerpack_dataflow import BatchData
from towerpack_dataflow.datasets import Digits
from towerpack_dataflow.testing import check_dataflow


def test_missing_scikit_learn_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match=r"pip install 'towerpack-dataflow\[datasets\]'"):
        Digits("train")


def test_unknown_part():
    with pytest.raises(ValueError, match="train_or_test is 'train' or 'test'; received 'val'"):
        Digits("val")


@pytest.mark.slow
def test_digits():
    pytest.importorskip("sklearn")
    train, test = Digits("train"), Digits("test")
    assert (len(train), len(test)) == (1442, 355)
    for flow in (train, test):
        check_dataflow(flow, limit=30, positions=4)
    image, label = test.datapoint(0, 0)
    assert (image.shape, image.dtype, type(label)) == ((8, 8), np.float32, int)
    images, labels = next(iter(BatchData(train, len(train))))
    assert (images.min(), images.max()) == (0, 1)
    counts = np.bincount(labels)
    assert counts.min() > 0.9 * counts.max()
    # Train is shuffled, test is not, unless one says otherwise; the two have nothing in common.
    assert [dp[1] for dp in test] == [dp[1] for dp in test]
    assert [dp[1] for dp in train] != [dp[1] for dp in train]
    seen = {dp[0].tobytes() for dp in train}
    assert not seen & {dp[0].tobytes() for dp in Digits("test", shuffle=True)}
    image *= 0
    assert test.datapoint(0, 0)[0].any()
