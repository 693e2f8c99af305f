"""Runs Tensorpack's examples as they are, by towerpack-compat, on small made data, and prints a table.

Run it with the path of a checkout of Tensorpack's examples; it downloads nothing:

    python oracles/tensorpack_programs/run.py /path/to/examples [--only mnist] [--steps 3] [--folder work]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

from made_data import make

HERE = Path(__file__).parent
LONGEST_SECONDS = 600


def main() -> int:
    """Runs the programs, and returns how many failed that Tensorpack itself can run."""
    options = _options()
    folder = Path(options.folder or tempfile.mkdtemp()).resolve()
    data, weights = folder / "data", folder / "weights"
    make(data)
    weights.mkdir(exist_ok=True)
    programs = tomllib.loads((HERE / "programs.toml").read_text(encoding="utf-8"))
    failed = 0
    print("| program | runs as it is | figure | seconds |\n| --- | --- | --- | --- |", flush=True)
    for name, program in programs.items():
        if not re.search(options.only, name):
            continue
        places = {"data": data, "weights": weights, "examples": options.examples}
        arguments = [text.format(**places) for text in program.get("arguments", [])]
        start = time.monotonic()
        result = _run(Path(options.examples), name, arguments, folder, options.steps)
        said = "yes" if result == "" else f"no: {result}"
        if result and "broken" in program:
            said = f"no; nor by Tensorpack: {program['broken']}"
        failed += said.startswith("no: ")
        figure = _figure(folder / "runs" / name.replace("/", "-"), program.get("figure"))
        print(f"| {name} | {said} | {figure} | {time.monotonic() - start:.0f} |", flush=True)
    print(f"\n{failed} failed")
    return min(failed, 1)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("examples", help="the folder of Tensorpack's examples")
    parser.add_argument("--only", default="", help="a regular expression of the programs to run")
    parser.add_argument("--steps", type=int, default=3, help="the steps of each training")
    parser.add_argument("--folder", help="where data and outputs go")
    return parser.parse_args()


def _run(examples: Path, name: str, arguments: list[str], folder: Path, steps: int) -> str:
    """Runs a program in a folder of its own, and returns its last line if it fails, else ""."""
    place = folder / "runs" / name.replace("/", "-")
    place.mkdir(parents=True, exist_ok=True)
    settings = {"TENSORPACK_DATASET": str(folder / "data"), "TF_CPP_MIN_LOG_LEVEL": "2", "MPLBACKEND": "agg"}
    command = [sys.executable, "-m", "towerpack_compat", "run", "--dry-run", str(steps), str(examples / name)]
    with open(place / "output.txt", "w") as output:
        try:
            done = subprocess.run(
                [*command, *arguments],
                cwd=place,
                env={**os.environ, **settings},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=LONGEST_SECONDS,
            )
        except subprocess.TimeoutExpired:
            return f"no end after {LONGEST_SECONDS} s"
    if done.returncode == 0:
        return ""
    lines = (place / "output.txt").read_text(errors="replace").strip().splitlines()
    return next(
        (line for line in reversed(lines) if re.match(r"[\w.]+(Error|Exception|Exit)\b", line)), lines[-1]
    )[:160]


def _figure(place: Path, name: str | None) -> str:
    """Returns the last value of a statistic that a program recorded."""
    for path in place.glob("train_log/*/stats.json"):
        for row in reversed(json.loads(path.read_text())):
            if name in row:
                return f"{name} {row[name]:.4g}"
    return ""


if __name__ == "__main__":
    sys.exit(main())
