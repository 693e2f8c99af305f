"""Statistics over an evaluation round."""

import numpy as np
import pytest

from towerpack_callbacks import (
    BinaryClassificationStats,
    ClassificationError,
    DataParallelInferenceRunner,
    InferenceRunner,
    ScalarStats,
)


def round_of(inferencer, batches):
    inferencer._before_inference()
    for values, size in batches:
        inferencer._on_fetches(values, size)
    return inferencer._after_inference()


def test_scalar_stats_weigh_batches_by_size():
    stats = ScalarStats(["cost", "accuracy"])
    assert round_of(stats, [([1.0, 0.5], 3), ([5.0, 1.0], 1)]) == {
        "validation_cost": 2.0,
        "validation_accuracy": 0.625,
    }
    assert stats.produces() == ["validation_cost", "validation_accuracy"]


def test_without_a_prefix_a_statistic_is_called_as_its_tensor():
    stats = ScalarStats("cost", prefix="")
    assert stats.produces() == ["cost"]
    assert round_of(stats, [([1.0], 1)]) == {"cost": 1.0}


def test_rounds_do_not_mix():
    stats = ScalarStats("cost", prefix="test")
    round_of(stats, [([100.0], 1)])
    assert round_of(stats, [([1.0], 1)]) == {"test_cost": 1.0}


def test_classification_error_is_exact_over_ragged_batches():
    error = ClassificationError()
    assert round_of(error, [([np.array([1, 0, 0])], 3), ([np.array([True])], 1)]) == {"validation_error": 0.5}


def test_scalars_are_wanted():
    with pytest.raises(ValueError, match=r"tensor 'cost' has shape \(2,\). Reduce it"):
        round_of(ScalarStats("cost"), [([np.zeros(2)], 2)])


def test_a_vector_is_wanted():
    with pytest.raises(ValueError, match=r"one 0 or 1 per example; tensor 'incorrect_vector' has shape \(\)"):
        round_of(ClassificationError(), [([np.float32(0)], 1)])


def test_inferencers_are_wanted():
    with pytest.raises(TypeError, match="takes Inferencer objects such as ScalarStats, received 'cost'"):
        InferenceRunner([], ["cost"])


def test_binary_classification_counts_elements_over_all_batches():
    stats = BinaryClassificationStats("pred", "label", prefix="edges")
    batches = [
        ([np.array([[1, 1], [0, 0]]), np.array([[1, 0], [1, 0]])], 2),
        ([np.array([True, True]), np.array([1.0, 0.0])], 2),
    ]
    values = round_of(stats, batches)
    assert values == {"edges_precision": 2 / 4, "edges_recall": 2 / 3, "edges_f1": pytest.approx(4 / 7)}
    assert list(values) == stats.produces()


def test_binary_classification_where_nothing_is_true():
    stats = BinaryClassificationStats("pred", "label")
    assert set(round_of(stats, [([np.zeros(3), np.zeros(3)], 3)]).values()) == {0.0}


@pytest.mark.parametrize(
    ("pred", "message"),
    [([0, 1, 1], "has shape .3,., 'label' has .2,."), ([0.3, 1], "'pred' has other values")],
)
def test_binary_classification_takes_yes_and_no(pred, message):
    with pytest.raises(ValueError, match=message):
        round_of(BinaryClassificationStats("pred", "label"), [([np.array(pred), np.array([0, 1])], 2)])


@pytest.mark.parametrize("devices", [[], "/cpu:0", None])
def test_devices_come_in_a_list(devices):
    with pytest.raises(ValueError, match=r"expected a list such as"):
        DataParallelInferenceRunner([], ScalarStats("cost"), devices)
