"""Compares the results of `compute.py` with the oracles, and prints a table: `python compare.py DIRECTORY`.

`--write PAGE` puts the table into the page. The exit status is 1 if a number is too far off, a layer has no
oracle, or an oracle has a layer that there is not.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import ModuleType

import keras_oracle
import numpy as np
import onnx_nodes
import onnx_oracle
import torch_oracle
from rows import Row, read_rows

ORACLES: Mapping[str, ModuleType] = {
    "ONNX": onnx_oracle,
    "PyTorch": torch_oracle,
    "Keras on NumPy": keras_oracle,
}
# In ulp of the largest element. Sums of terms in another order differ by a few.
MOST = {"output": 16.0, "gradient": 64.0}
# Of two values in a group, the difference is all that is left, and libraries find it in different ways.
FURTHER = {"GroupNorm 2-D": 4.0}
WITHOUT = {
    "BatchRenorm": "no oracle has it; the table of layers has its reference",
    "Dropout": "draws random numbers",
    "SpatialDropout": "draws random numbers",
}
BEGIN, END = "<!-- table of oracles -->", "<!-- end of table -->"

Errors = dict[tuple[str, str], dict[str, float]]


def main(directory: Path, page: Path | None) -> int:
    """Compares, prints and writes; returns the exit status."""
    rows = read_rows(directory)
    errors, failures = compare(rows)
    nodes, wrong = onnx_nodes.compare(directory)
    failures += [*missing(rows), *wrong]
    table = "\n".join([*lines(errors), "", *nodes])
    print(table)
    if page is not None:
        before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        page.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{after}", encoding="utf-8")
    print("\n".join(failures), file=sys.stderr)
    return 1 if failures else 0


def compare(rows: list[Row]) -> tuple[Errors, list[str]]:
    """The largest error by layer and oracle, and by dtype and kind of number; and what is too far off."""
    errors: Errors = defaultdict(lambda: defaultdict(float))
    failures = []
    for row in rows:
        for oracle, module in ORACLES.items():
            if row.layer not in module.LAYERS:
                continue
            dtypes = ("float32",) if row.layer in module.IN_FLOAT32 else ("float32", "float64")
            for what, error in _errors(row, module.compute(row), dtypes):
                most = MOST[what.split()[1]] * FURTHER.get(row.name, 1)
                found = errors[row.layer, oracle]
                found[what] = max(found[what], error)
                if not error <= most:
                    failures.append(f"{row.name}, {oracle}: {what} is off by {error:.3g} ulp, at most {most}")
    return errors, failures


def _errors(
    row: Row, expected: Mapping[str, np.ndarray], dtypes: Collection[str]
) -> Iterator[tuple[str, float]]:
    for dtype, computed in row.results.items():
        if dtype not in dtypes:
            continue
        epsilon = float(np.finfo(dtype).eps)
        lacking = {name for name in computed if name.startswith("gradient/")} - expected.keys()
        if lacking and any(name.startswith("gradient/") for name in expected):
            raise AssertionError(f"{row.name}: the oracle gives no {', '.join(sorted(lacking))}")
        for name, wanted in expected.items():
            received = computed[name].astype(np.float64)
            if received.shape != wanted.shape:
                raise AssertionError(f"{row.name}: {name} is {received.shape}, the oracle's {wanted.shape}")
            largest = max(float(np.abs(wanted).max(initial=0.0)), float(np.finfo(np.float64).tiny))
            kind = name.partition("/")[0]
            yield f"{dtype} {kind}", float(np.abs(received - wanted).max(initial=0.0)) / (largest * epsilon)


def missing(rows: list[Row]) -> list[str]:
    """Layers without an oracle, and layers that oracles have and the table of layers has not."""
    layers, known = (
        {row.layer for row in rows},
        {name for module in ORACLES.values() for name in module.LAYERS},
    )
    without = sorted(layers - known - WITHOUT.keys())
    unknown = sorted((known | WITHOUT.keys()) - layers)
    return [
        *(f"{layer}: no oracle compares it; add it to one, or a reason to WITHOUT" for layer in without),
        *(f"{layer}: the table of layers has no such row" for layer in unknown),
    ]


def lines(errors: Errors) -> list[str]:
    """The table in Markdown."""
    columns = [f"{dtype} {kind}" for dtype in ("float32", "float64") for kind in ("output", "gradient")]
    found = [f"| layer | oracle | {' | '.join(columns)} |", f"| --- | --- |{' ---: |' * len(columns)}"]
    for (layer, oracle), by_column in sorted(errors.items(), key=lambda item: item[0]):
        cells = [f"{by_column[column]:.2g}" if column in by_column else "" for column in columns]
        found.append(f"| `{layer}` | {oracle} | {' | '.join(cells)} |")
    found += [f"| `{layer}` | none: {reason} |{' |' * len(columns)}" for layer, reason in WITHOUT.items()]
    return found


if __name__ == "__main__":
    place = sys.argv.index("--write") if "--write" in sys.argv else None
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[place + 1]) if place else None))
