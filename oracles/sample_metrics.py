"""Compares the metrics of generated samples with torch-fidelity, prdc and scipy, and prints a table.

`python sample_metrics.py --write golden.npz` also keeps the samples and the oracles' values, for tests where
the oracles are not installed. The exit status is 1 if a number is too far off.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, final

import numpy as np
import prdc
import scipy.linalg
import torch

from towerpack_callbacks import metrics

try:
    import torch_fidelity
except RuntimeError:  # PyPI's torchvision is for CUDA: beside a PyTorch without it, its ops are missing
    # Nothing here calls them, but torchvision registers functions with them when it is imported.
    for op in ("nms", "qnms"):
        torch.library.define(f"torchvision::{op}", "(Tensor boxes, Tensor scores, float overlap) -> Tensor")
    import torch_fidelity
from torch_fidelity.feature_extractor_base import FeatureExtractorBase

MOST = 1e-6
SUBSETS = {"subsets": 7, "subset_size": 25, "seed": 11}

Samples = Mapping[str, np.ndarray]
Value = tuple[str, float, float]


@final
class Same(FeatureExtractorBase):
    """Features that are the samples themselves, in float64."""

    def __init__(self, name: str, features_list: list[str], **_: Any) -> None:
        super().__init__(name, features_list)

    @staticmethod
    def get_provided_features_list() -> tuple[str]:
        return ("same",)

    @staticmethod
    def get_default_feature_layer_for_metric(metric: str) -> str:
        return "same"

    @staticmethod
    def can_be_compiled() -> bool:
        return False

    def forward(self, batch: torch.Tensor) -> tuple[torch.Tensor]:
        return (batch,)


@final
class Rows(torch.utils.data.Dataset):
    """The rows of a matrix."""

    def __init__(self, matrix: np.ndarray) -> None:
        self._rows = torch.from_numpy(matrix.astype(np.float64))

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self._rows[index]


def main(golden: Path | None) -> int:
    """Compares, prints and writes; returns the exit status."""
    torch_fidelity.register_feature_extractor("same", Same)
    kept: dict[str, Any] = {}
    failures = 0
    print("| samples | metric | oracle | ours | difference |\n| --- | --- | --- | --- | --- |")
    for case, samples in cases().items():
        kept |= {f"{case}/{name}": array for name, array in samples.items()}
        values = list(compare(samples))
        kept |= {f"{case}/values": [theirs for _, theirs, _ in values]}
        kept |= {f"{case}/names": [name for name, _, _ in values]}
        for name, theirs, ours in values:
            error = abs(ours - theirs) / max(1.0, abs(theirs))
            failures += not error <= MOST
            print(f"| {case} | {name} | {theirs:.9g} | {ours:.9g} | {error:.1e} |")
    if golden is not None:
        np.savez_compressed(golden, **kept)
    if "tensorflow" in sys.modules:
        sys.exit("the metrics have imported TensorFlow")
    return 1 if failures else 0


def cases() -> dict[str, Samples]:
    """Real and generated samples: usual ones, fewer than dimensions, far from the origin, collapsed."""
    random = np.random.RandomState(5)
    real = random.normal(size=(90, 6))
    mixed = random.normal(size=(6, 6))
    cases = {
        "alike": (real, random.normal(size=(70, 6))),
        "unlike": (real @ mixed, 1.5 + random.normal(size=(70, 6))),
        "far away": (1000 + real[:, :3], 1000.3 + 0.5 * random.normal(size=(60, 3))),
        "fewer samples than dimensions": (random.normal(size=(25, 40)), random.normal(size=(30, 40)) + 0.2),
        "on a plane": (real[:, :2] @ mixed[:2], random.normal(size=(70, 3)) @ mixed[:3]),
        "collapsed": (
            real,
            np.repeat(random.normal(size=(1, 6)), 70, 0) + 0.01 * random.normal(size=(70, 6)),
        ),
    }
    # Half of the bytes; all compute in float64.
    return {
        name: {"real": one.astype(np.float32), "generated": other.astype(np.float32)}
        for name, (one, other) in cases.items()
    }


def compare(samples: Samples) -> Iterator[Value]:
    """Yields name, oracle's value and ours of each metric."""
    real, generated = samples["real"].astype(np.float64), samples["generated"].astype(np.float64)
    theirs = torch_fidelity.calculate_metrics(
        input1=Rows(generated),
        input2=Rows(real),
        feature_extractor="same",
        cuda=False,
        fid=True,
        kid=True,
        prc=True,
        kid_subsets=SUBSETS["subsets"],
        kid_subset_size=SUBSETS["subset_size"],
        rng_seed=SUBSETS["seed"],
        save_cpu_ram=True,
        verbose=False,
    )
    yield "FID", theirs["frechet_inception_distance"], metrics.frechet_distance(generated, real)
    kernel = metrics.kernel_distance(generated, real, **SUBSETS)
    yield "KID mean", theirs["kernel_inception_distance_mean"], kernel.mean
    yield "KID std", theirs["kernel_inception_distance_std"], kernel.std
    shares = metrics.precision_recall(real, generated)
    yield "precision", theirs["precision"], shares.precision
    yield "recall", theirs["recall"], shares.recall
    yield from compare_with_prdc(real, generated)
    yield compare_root(real, generated)


def compare_with_prdc(real: np.ndarray, generated: np.ndarray) -> Iterator[Value]:
    """Yields the results of prdc."""
    with contextlib.redirect_stdout(io.StringIO()):
        theirs = prdc.compute_prdc(real, generated, nearest_k=5)
    ours = metrics.density_coverage(real, generated, k=5)._asdict()
    shares = metrics.precision_recall(real, generated, k=5)._asdict()
    for name, value in (ours | shares).items():
        yield f"{name}, k=5", float(theirs[name]), value


def compare_root(real: np.ndarray, generated: np.ndarray) -> Value:
    """Returns the distance of moments, with scipy's root of the product of covariances."""
    means = real.mean(0), generated.mean(0)
    one, other = np.cov(real, rowvar=False), np.cov(generated, rowvar=False)
    root = scipy.linalg.sqrtm(one @ other)
    theirs = np.square(means[0] - means[1]).sum() + np.trace(one + other - 2 * root.real)
    return "FID by sqrtm", float(theirs), metrics.frechet_distance_of_moments(means[0], one, means[1], other)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[2]) if sys.argv[1:2] == ["--write"] else None))
