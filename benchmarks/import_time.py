"""The duration of `import towerpack_dataflow` relative to `import numpy`, which it needs anyway.

python benchmarks/import_time.py [--smoke]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

import _rounds
import _verdicts

ROUNDS = _rounds.shorter(21)


def seconds_to_import(module: str, environment: dict[str, str]) -> float:
    """Wall time of a fresh interpreter that imports `module` and ends."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", f"import {module}" if module else ""], check=True, env=environment)
    return time.perf_counter() - begin


def main() -> None:
    """Measures and prints; the exit code is 1 if the limit is exceeded."""
    with tempfile.TemporaryDirectory() as folder:
        # Byte code of all modules, whether they were installed with theirs or not.
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        compare(environment)


def compare(environment: dict[str, str]) -> None:
    """Measures and prints; the exit code is 1 if the limit is exceeded."""
    modules = {"python alone": "", "numpy": "numpy", "towerpack_dataflow": "towerpack_dataflow"}
    subjects = {
        name: (lambda module=module: seconds_to_import(module, environment))
        for name, module in modules.items()
    }
    print(_rounds.heading("numpy"))
    _rounds.warm_up(subjects, 2)
    figures = _rounds.measure(subjects, ROUNDS)
    print(f"wall time of a fresh interpreter, median of {ROUNDS} interleaved rounds (range)")
    for name, values in figures.items():
        print(f"  {name:<20} {_rounds.summary([1000 * value for value in values], '.0f')} ms")
    verdicts = _verdicts.Verdicts()
    by_round = _rounds.ratios(figures["towerpack_dataflow"], figures["numpy"])
    verdicts.at_most("towerpack_dataflow / numpy", by_round, 1.25)
    verdicts.leave()


if __name__ == "__main__":
    main()
