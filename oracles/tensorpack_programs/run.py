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
LONGEST_SECONDS = 1800


def main() -> int:
    """Runs the programs, and returns how many failed that Tensorpack itself can run."""
    options = _options()
    folder = Path(options.folder or tempfile.mkdtemp()).resolve()
    data, weights = folder / "data", folder / "weights"
    make(data)
    weights.mkdir(exist_ok=True)
    programs = tomllib.loads((HERE / "programs.toml").read_text(encoding="utf-8"))
    shared = programs.pop("shared")
    failed = 0
    print("| program | runs as it is | figure | seconds |\n| --- | --- | --- | --- |", flush=True)
    for name, program in programs.items():
        if not re.search(options.only, name):
            continue
        places = {"data": data, "weights": weights, "examples": options.examples, "runs": folder / "runs"}
        written = [part for text in program.get("arguments", []) for part in shared.get(text, [text])]
        arguments = [text.format(**places) for text in written]
        start = time.monotonic()
        place = folder / "runs" / re.sub("[/#]", "-", name)
        place.mkdir(parents=True, exist_ok=True)
        script = str(Path(options.examples) / name.partition("#")[0])
        made = [text.format(**places) for text in program.get("weights", [])]
        result = _make_weights(made, script, arguments, place, data)
        steps = str(program.get("steps", options.steps))
        run = ["-m", "towerpack_compat", "run", "--dry-run", steps, script, *arguments]
        result = result or _run(run, place, data, program.get("gpus"))
        said = "yes" if result == "" else f"no: {result}"
        if result and "broken" in program:
            said = f"no; nor by Tensorpack: {program['broken']}"
        failed += said.startswith("no: ")
        figure = _figure(place, program.get("figure"))
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


def _make_weights(made: list[str], script: str, arguments: list[str], place: Path, data: Path) -> str:
    """Makes the weights that a program loads, a path and the kind of their names, unless they are there."""
    if not made or (place / made[0]).exists():
        return ""
    said = _run([str(HERE / "made_weights.py"), *made, script, *arguments], place, data)
    if said:
        (place / made[0]).unlink(missing_ok=True)
    return said and f"its weights: {said}"


def _run(command: list[str], place: Path, data: Path, gpus: str | None = None) -> str:
    """Runs a command of Python in a folder, and returns its last line if it fails, else ""."""
    modules = os.pathsep.join(filter(None, [str(HERE / "modules"), os.environ.get("PYTHONPATH")]))
    settings = {
        "TENSORPACK_DATASET": str(data),
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "MPLBACKEND": "agg",
        "PYTHONPATH": modules,
    } | ({"CUDA_VISIBLE_DEVICES": gpus} if gpus else {})
    with open(place / "output.txt", "w") as output:
        try:
            done = subprocess.run(
                [sys.executable, *command],
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
