"""Statistics over an evaluation round."""

import numpy as np
import pytest

from towerpack_callbacks import ClassificationError, InferenceRunner, ScalarStats


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
