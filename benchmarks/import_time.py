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


WHEEL = "towerpack_dataflow"
# Names are imported at their first use.
USED = "three flows of it"


def seconds_of(statement: str, environment: dict[str, str]) -> float:
    """Wall time of a fresh interpreter that runs `statement` and ends."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True, env=environment)
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
    statements = {
        "python alone": "",
        "numpy": "import numpy",
        WHEEL: f"import {WHEEL}",
        USED: f"from {WHEEL} import BatchData, DataFromArrays, MapData",
    }
    subjects = {
        name: (lambda statement=statement: seconds_of(statement, environment))
        for name, statement in statements.items()
    }
    print(_rounds.heading("numpy"))
    _rounds.warm_up(subjects, 2)
    figures = _rounds.measure(subjects, ROUNDS)
    print(f"wall time of a fresh interpreter, median of {ROUNDS} interleaved rounds (range)")
    for name, values in figures.items():
        print(f"  {name:<20} {_rounds.summary([1000 * value for value in values], '.0f')} ms")
    verdicts = _verdicts.Verdicts()
    for name, most in ((WHEEL, 1.2), (USED, 1.25)):
        verdicts.at_most(f"{name} / numpy", _rounds.ratios(figures[name], figures["numpy"]), most)
    verdicts.leave()


if __name__ == "__main__":
    main()
