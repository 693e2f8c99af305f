"""How long `import towerpack_dataflow` takes beside `import numpy`, which it needs anyway.

python benchmarks/import_time.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from statistics import median

import _rounds  # noqa: PLC2701  # underscored, so that nox does not run it as a benchmark

ROUNDS = 21
LIMIT = 1.25


def seconds_to_import(module: str, environment: dict[str, str]) -> float:
    """Wall time of a fresh interpreter that imports `module` and ends."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", f"import {module}" if module else ""], check=True, env=environment)
    return time.perf_counter() - begin


def main() -> None:
    """Measures and prints; the exit code says whether the limit is kept."""
    with tempfile.TemporaryDirectory() as folder:
        # Byte code of all modules, whether they were installed with theirs or not.
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        compare(environment)


def compare(environment: dict[str, str]) -> None:
    """Measures and prints; the exit code says whether the limit is kept."""
    modules = {"python alone": "", "numpy": "numpy", "towerpack_dataflow": "towerpack_dataflow"}
    subjects = {
        name: (lambda module=module: seconds_to_import(module, environment))
        for name, module in modules.items()
    }
    _rounds.measure(subjects, 2)  # file caches, byte code
    figures = _rounds.measure(subjects, ROUNDS)
    print(f"wall time of a fresh interpreter, median of {ROUNDS} interleaved rounds; {_rounds.load()}")
    for name, values in figures.items():
        print(f"  {name:<20} {_rounds.summary([1000 * value for value in values], '.0f')} ms")
    ratio = median(figures["towerpack_dataflow"]) / median(figures["numpy"])
    by_round = _rounds.ratios(figures["towerpack_dataflow"], figures["numpy"])
    print(f"  ratio {ratio:.2f}, by round {_rounds.summary(by_round, '.2f')}; the limit is {LIMIT}")
    if ratio > LIMIT:
        sys.exit(f"import towerpack_dataflow takes {ratio:.2f} times import numpy, more than {LIMIT}")


if __name__ == "__main__":
    main()
