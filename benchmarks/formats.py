"""Reading each format of towerpack-dataflow compared with the bare library, on one core.

    python benchmarks/formats.py [--smoke] [lmdb] [tfrecord] ...

Each ratio is of one round, in which both are measured in turn over files that lie in the file cache.
`rows(folder)` of `_formats_<family>.py` yields the rows of a family of formats.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from pathlib import Path

import _rounds
import _verdicts
from _formats_row import Row

ROUNDS = _rounds.shorter(7)
FAMILIES = sorted(
    path.stem[9:] for path in Path(__file__).parent.glob("_formats_*.py") if path.stem[9:] != "row"
)


def measure(row: Row, verdicts: _verdicts.Verdicts) -> None:
    """Prints records a second of both, and their ratio."""
    subjects = {"ours": row.ours, row.library: row.bare}
    _rounds.warm_up(subjects)
    found = _rounds.measure(subjects, ROUNDS)
    for name, values in found.items():
        print(f"  {row.what}, {name}: {_rounds.summary(values, ',.0f')} records a second")
    ratios = _rounds.ratios(found["ours"], found[row.library])
    what = f"{row.what}: ours / {row.library}"
    if row.least is None:
        verdicts.untargeted(what, ratios)
    else:
        verdicts.at_least(what, ratios, row.least)


def main() -> None:
    """Measures the families that the command line names, or all."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # so that no library reads ahead on another core
    names = sys.argv[1:] or FAMILIES
    print(_rounds.heading("numpy", "lmdb", "crc32c", "tensorflow"))
    verdicts = _verdicts.Verdicts()
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            for row in importlib.import_module(f"_formats_{name}").rows(Path(folder)):
                measure(row, verdicts)
    verdicts.leave()


if __name__ == "__main__":
    main()
