"""Compares what `compute.py` has written by Tensorpack with that of towerpack-compat.

`python compare.py THEIRS OURS` prints a line for each difference, and a table of areas. The exit status is 1
if a difference has no reason in `REASONS`, or a reason has no difference.
"""

from __future__ import annotations

import fnmatch
import sys
from collections import Counter
from pathlib import Path

import numpy as np

MOST = 1e-5  # relative to the largest element
LOOSE = 0.05  # of statistics of random numbers, whose names begin with "~"
# Patterns of the names of cases and values that differ on purpose.
REASONS: dict[str, str] = {
    "augmentor/Affine*/points": "warps move coordinates around the centres of pixels",
    "augmentor/Rotation*/points": "warps move coordinates around the centres of pixels",
    "augmentor/transforms/4/1": "warps move coordinates around the centres of pixels",
    "augmentor/RotationAndCropValid*/image": "the edge has no black pixels",
    "augmentor/*Paste/*/points": "pastes move coordinates, which Tensorpack refuses",
    "augmentor/RandomPaste/*/image": "the place is drawn as an integer, and the last one is drawn too",
    "augmentor/RandomCropRandomShape*": "the last row and column are drawn too",
    "augmentor/Gamma/f?/image": "images of floats are not rounded to 256 values",
    "augmentor/GaussianDeform/*/dtype": "the dtype is kept",
    "augmentor/Shift_constant/*/image": "a number fills all channels of the border, not the first one alone",
    "augmentor/refusals/7": "images of int64 are refused, as Tensorpack's documentation says",
    "flow/batches/*/4/1": "strings are batched as objects",
    "flow/seeded_flows/numbers/*": "runs repeat, with other random numbers than Tensorpack's",
    "flow/mapped/*/size": "the size is unknown once a function has dropped a datapoint",
    "flow/sizes_of_workers/2": "MultiProcessMapAndBatchData has a size",
    "layer/*_predicting/collections/model_variables/*": "towers that do not train add theirs, too",
    "layer/BatchNorm*/after/layer/*/EMA": "averages are of the unbiased variance and of all virtual batches",
    "layer/BatchNorm*ghost/collections/update_ops": "averages of virtual batches are updated by UPDATE_OPS",
    "layer/BatchRenorm*moving_stddev": "variances are averaged, not deviations in another variable",
    "layer/BatchRenorm*/after/layer/moving_variance": "variances are averaged, not deviations",
    "layer/BatchRenorm*/keys": "variances are averaged, not deviations in another variable",
    "layer/BatchRenorm/collections/model_variables/*": "there is no variable of averaged deviations",
    "layer/BatchRenorm/collections/update_ops": "averages are updated with the output",
    "layer/BatchRenorm*/held/*": "the attribute `variables` of the output holds the averages, too",
    "layer/BNReLU*/name": "the result is called output or relu",
    "layer/ConcatWith*/name": "the result is called output",
    "layer/Dropout*/name": "the result is a tensor called output, not the input",
    "layer/FixedUnPooling*/name": "the result is called output",
    "layer/InstanceNorm*/name": "the result is called output",
    "layer/LayerNorm*/name": "the result is called output",
    "layer/PReLU*/name": "the result is called output",
    "layer/empty_names": "an empty name is refused: TensorFlow makes a name with two slashes of it",
    "layer/regularized_costs/1/*": "a cost without variables has the given name, too, not one with empty_",
    "layer/regularized_towers/1/0/1/1": "expressions match names without the scope of the tower",
    "file/hdf5*": "numbers are numbers of Python",
    "file/svmlight*": "numbers are numbers of Python",
    "file/tfrecord_sizeless*/size": "the number of records is known",
    "tool/pictures/9": "`PALETTE_RGB` has other colours",
    "training/*/param-summary/*": "weights are summarized before the step, not at any time during it",
    "training/optimizer_accumulated*": "each k-th step updates; Tensorpack reads a racing counter",
    "training/optimizer_scaled/statistics/0/*": "the statistic of a gradient is <variable>-grad/rms",
    "training/summaries_of_steps/statistics/*": "periods are counted over all epochs",
}


def main(theirs: Path, ours: Path) -> int:
    """Compares, prints, and returns the exit status."""
    counts: dict[str, Counter[str]] = {}
    used, failures = set(), []
    for path in sorted(set(theirs.glob("*/*.npz")) - set(theirs.glob("files/*"))):
        name = f"{path.parent.name}/{path.stem}"
        found = list(differences(name, path, ours / path.parent.name / path.name))
        without = []
        for where, text in found:
            pattern = next((each for each in REASONS if fnmatch.fnmatch(where, each)), None)
            used.add(pattern)
            if pattern is None:
                without.append(f"{where}: {text}")
        failures += without
        kind = "equal" if not found else "differs" if without else "with a reason"
        counts.setdefault(path.parent.name, Counter())[kind] += 1
    failures += [f"{pattern}: there is no such difference" for pattern in REASONS if pattern not in used]
    print("\n".join(failures))
    print("| area | cases | equal | with a reason | differ |\n| --- | ---: | ---: | ---: | ---: |")
    for area, count in counts.items():
        row = (area, sum(count.values()), count["equal"], count["with a reason"], count["differs"])
        print(f"| {' | '.join(map(str, row))} |")
    return 1 if failures else 0


def differences(name: str, theirs: Path, ours: Path):
    """Yields the places where a case differs, and how."""
    if not ours.exists():
        yield name, "it is missing"
        return
    with np.load(theirs) as file:
        expected = dict(file)
    with np.load(ours) as file:
        received = dict(file)
    if "error" in expected:
        yield name, f"Tensorpack raises {expected['error']}"
        return
    if "error" in received:
        yield name, f"it raises {received['error']}"
        return
    for key in sorted(expected.keys() | received.keys()):
        where = f"{name}/{key.strip('|').replace('|', '/')}"
        if key not in received or key not in expected:
            yield where, "it is on one side alone"
            continue
        text = difference(expected[key], received[key], LOOSE if "~" in key else MOST)
        if text:
            yield where, text


def difference(expected: np.ndarray, received: np.ndarray, most: float) -> str:
    """Returns how two arrays differ, or ""."""
    if expected.shape != received.shape:
        return f"shape {received.shape} for {expected.shape} {_shown(expected)}; {_shown(received)}"
    if expected.dtype.kind not in "fiub" or received.dtype.kind not in "fiub":
        return "" if np.array_equal(expected, received) else f"{_shown(received)} for {_shown(expected)}"
    first, second = expected.astype("float64"), received.astype("float64")
    if not np.array_equal(np.isnan(first), np.isnan(second)):
        return "NaN on one side alone"
    off = float(np.nanmax(np.abs(first - second), initial=0))
    largest = max(float(np.nanmax(np.abs(first), initial=0)), 1e-3)
    wrong = off > most * largest
    return f"off by {off:.3g} of {largest:.3g} {_shown(expected)}; {_shown(received)}" if wrong else ""


def _shown(array: np.ndarray) -> str:
    return np.array2string(array.ravel()[:8], precision=5, separator=",", threshold=8)[:150].replace("\n", "")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
