"""Metrics of generated samples: other libraries' values, what metrics must tell apart, errors."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from hypothesis import given
from hypothesis import strategies as st

from towerpack_callbacks import SamplesError
from towerpack_callbacks.metrics import (
    density_coverage,
    frechet_distance,
    frechet_distance_of_moments,
    kernel_distance,
    mixture_modes,
    precision_recall,
)

# Written by `nox -s "peers(metrics)" -- --write`, from what torch-fidelity, prdc and scipy compute.
with np.load(Path(__file__).with_name("golden.npz")) as file:
    GOLDEN = dict(file)
CASES = sorted(name.removesuffix("/names") for name in GOLDEN if name.endswith("/names"))

PAIRED = [frechet_distance, kernel_distance, precision_recall, density_coverage]


def moments(samples):
    return samples.mean(0), np.cov(samples, rowvar=False)


def measure(real, generated):
    """All metrics by the names in the golden file."""
    kernel = kernel_distance(generated, real, subsets=7, subset_size=25, seed=11)
    fewer, more = precision_recall(real, generated), precision_recall(real, generated, k=5)
    density, coverage = density_coverage(real, generated)
    return {
        "FID": frechet_distance(generated, real),
        "FID by sqrtm": frechet_distance_of_moments(*moments(real), *moments(generated)),
        "KID mean": kernel.mean,
        "KID std": kernel.std,
        "precision": fewer.precision,
        "recall": fewer.recall,
        "precision, k=5": more.precision,
        "recall, k=5": more.recall,
        "density, k=5": density,
        "coverage, k=5": coverage,
    }


@pytest.mark.parametrize("case", CASES)
def test_values_are_those_of_other_libraries(case):
    real, generated = (GOLDEN[f"{case}/{which}"].astype(np.float64) for which in ("real", "generated"))
    measured = measure(real, generated)
    assert measured.keys() == set(GOLDEN[f"{case}/names"])
    expected = dict(zip(GOLDEN[f"{case}/names"].tolist(), GOLDEN[f"{case}/values"].tolist()))
    assert measured == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_tensorflow_is_not_imported():
    script = "import sys, towerpack_callbacks.metrics; print({'tensorflow', 'scipy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@given(st.integers(1, 12), st.integers(2, 12), st.integers(2, 12), st.integers(0, 2**31))
def test_frechet_distance_is_that_of_the_moments(dimension, n, m, seed):
    random = np.random.default_rng(seed)
    a, b = random.normal(size=(n, dimension)), 2 * random.normal(size=(m, dimension)) + 1
    moments_a, moments_b = (moments(x) if dimension > 1 else (x.mean(0), [[x.var(ddof=1)]]) for x in (a, b))
    distance = frechet_distance(a, b)
    assert distance == pytest.approx(frechet_distance(b, a), rel=1e-9, abs=1e-9)
    assert distance == pytest.approx(frechet_distance_of_moments(*moments_a, *moments_b), rel=1e-6, abs=1e-6)


@given(st.integers(1, 8), st.integers(0, 2**31))
def test_frechet_distance_of_itself_is_0_for_any_rank(rank, seed):
    random = np.random.default_rng(seed)
    samples = random.normal(size=(20, rank)) @ random.normal(size=(rank, 8))
    assert frechet_distance(samples, samples[::-1]) == pytest.approx(0, abs=1e-9)
    assert frechet_distance_of_moments(*moments(samples), *moments(samples)) == pytest.approx(0, abs=1e-9)


def test_frechet_distance_of_commuting_covariances():
    ones, twos = np.eye(3), np.diag([4.0, 0.0, 9.0])
    # The roots differ by 1 - 2, 1 - 0 and 1 - 3.
    distance = frechet_distance_of_moments(np.zeros(3), ones, np.full(3, 2.0), twos)
    assert distance == pytest.approx(12 + 1 + 1 + 4)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float16, np.float32, tf.bfloat16.as_numpy_dtype])
def test_any_real_numbers_are_taken(dtype):
    values = np.arange(24).reshape(8, 3) % 7
    for metric in (frechet_distance, density_coverage):
        assert metric(values.astype(dtype), values.astype(dtype)) == metric(values * 1.0, values * 1.0)


def test_kernel_distance_of_one_distribution_has_no_bias():
    samples = np.random.default_rng(3).normal(size=(4000, 4))
    halves = kernel_distance(samples[:2000], samples[2000:], subsets=200, subset_size=20)
    assert abs(halves.mean) < 4 * halves.std / np.sqrt(200)


def test_kernel_distance_depends_on_the_seed_alone():
    samples = np.random.default_rng(3).normal(size=(60, 4))
    one, same, other = (kernel_distance(samples, samples + 1, 5, 20, seed) for seed in (1, 1, 2))
    assert one == same != other


def test_missing_modes_show_in_recall_and_coverage_and_noise_in_precision_and_density():
    random = np.random.default_rng(0)
    real = random.normal(size=(600, 2)) + 20 * (np.arange(600) % 3)[:, None]
    one_mode, noise = real[::3] + 0.01, random.uniform(-200, 200, size=(600, 2))
    assert precision_recall(real, one_mode) == pytest.approx((1, 1 / 3), abs=0.02)
    assert density_coverage(real, one_mode).coverage == pytest.approx(1 / 3, abs=0.02)
    assert precision_recall(real, noise).precision < 0.1 and density_coverage(real, noise).density < 0.1


def test_rows_are_compared_in_blocks():
    random = np.random.default_rng(1)
    real, generated = random.normal(size=(1100, 2)), random.normal(size=(300, 2)) + 0.5
    radii = [np.sort(np.linalg.norm(x[:, None] - x, axis=2), 1)[:, 3] for x in (real, generated)]
    distances = np.linalg.norm(real[:, None] - generated, axis=2)
    shares = (distances <= radii[0][:, None]).any(0).mean(), (distances <= radii[1]).any(1).mean()
    assert precision_recall(real, generated) == pytest.approx(shares, abs=1e-12)


GRID = np.stack(np.meshgrid(np.arange(-4.0, 5, 2), np.arange(-4.0, 5, 2)), -1).reshape(-1, 2)


def test_modes_of_the_mixture_itself():
    samples = np.repeat(GRID, 100, 0) + np.random.default_rng(0).normal(scale=0.05, size=(2500, 2))
    found = mixture_modes(samples, GRID, std=0.05)
    assert found.covered == 25 and found.reverse_kl == pytest.approx(0, abs=1e-4)
    assert found.high_quality == pytest.approx(1 - np.exp(-4.5), abs=0.005)  # Rayleigh, three deviations


def test_modes_of_a_generator_that_has_collapsed_or_learned_nothing():
    assert mixture_modes(np.full((50, 2), 4.01), GRID, std=0.05) == (1, 1.0, pytest.approx(np.log(25)))
    nothing = mixture_modes(np.full((50, 2), 1.0), GRID, std=0.05)
    assert nothing[:2] == (0, 0.0) and np.isnan(nothing.reverse_kl)


def test_a_sample_of_three_deviations_is_of_low_quality():
    assert mixture_modes([[0.0], [2.9], [3.0]], [[0.0], [50.0]], std=1).high_quality == pytest.approx(2 / 3)


@pytest.mark.parametrize("metric", PAIRED)
def test_too_few_samples(metric):
    with pytest.raises(SamplesError, match=r"has 1 samples; .* needs \d+ or more"):
        metric(np.zeros((1, 3)), np.zeros((1, 3)))


@pytest.mark.parametrize("metric", PAIRED)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite(metric, bad):
    samples = np.ones((2000, 3))
    broken = samples.copy()
    broken[[7, 9], 1] = bad
    with pytest.raises(SamplesError, match="not finite in 2 of 2000 rows, the first is row 7"):
        metric(samples, broken)


@pytest.mark.parametrize("metric", PAIRED)
def test_other_dimensions(metric):
    with pytest.raises(SamplesError, match=r"has dimension 3, .* has 4: expected the same features"):
        metric(np.ones((1000, 3)), np.ones((1000, 4)))


@pytest.mark.parametrize("metric", PAIRED)
def test_images_are_not_flattened_by_themselves(metric):
    with pytest.raises(SamplesError, match=r"shape \(1000, 2, 2, 1\): expected .*reshape\(len\(x\), -1\)"):
        metric(np.ones((1000, 2, 2, 1)), np.ones((1000, 4)))


def test_no_dimension():
    with pytest.raises(SamplesError, match="dimension of at least 1"):
        frechet_distance(np.ones((4, 0)), np.ones((4, 0)))


@pytest.mark.parametrize(
    "samples", [np.array([["a", "b"]]), np.ones((3, 2), complex)], ids=["text", "complex"]
)
def test_values_that_are_not_numbers(samples):
    with pytest.raises(TypeError, match=r"has dtype .*: expected real numbers"):
        frechet_distance(samples, samples)


def test_matrices_that_are_not_covariances():
    with pytest.raises(SamplesError, match="covariance_b is not symmetric with eigenvalues of 0 or more"):
        frechet_distance_of_moments([0, 0], np.eye(2), [0, 0], -np.eye(2))
    with pytest.raises(SamplesError, match="covariance_a is not symmetric"):
        frechet_distance_of_moments([0, 0], [[1, 2], [0, 1]], [0, 0], np.eye(2))
    with pytest.raises(SamplesError, match=r"shape \(3, 3\): expected \(2, 2\)"):
        frechet_distance_of_moments([0, 0], np.eye(3), [0, 0], np.eye(2))


@pytest.mark.parametrize("k", [0, 1.5, -1])
def test_a_number_of_neighbours(k):
    for metric in (precision_recall, density_coverage):
        with pytest.raises(ValueError, match="expected a whole number of at least 1"):
            metric(np.ones((9, 2)), np.ones((9, 2)), k=k)


def test_subsets_out_of_range():
    with pytest.raises(ValueError, match=r"subset_size=1\): expected a whole number of at least 2"):
        kernel_distance(np.ones((9, 2)), np.ones((9, 2)), subset_size=1)
    with pytest.raises(ValueError, match=r"subsets=0\): expected a whole number of at least 1"):
        kernel_distance(np.ones((9, 2)), np.ones((9, 2)), subsets=0)


@pytest.mark.parametrize("std", [0, -1.0, float("nan")])
def test_a_standard_deviation_is_above_0(std):
    with pytest.raises(ValueError, match="expected a number above 0"):
        mixture_modes(np.ones((9, 2)), GRID, std)
