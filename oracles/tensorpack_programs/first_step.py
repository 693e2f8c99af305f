"""Compares the first step of Tensorpack's examples with that of Tensorpack 0.11.

    python oracles/tensorpack_programs/first_step.py /path/to/examples PYTHON [--ours PYTHON] [--only mnist]

PYTHON is the interpreter of an environment with Tensorpack 0.11, which `oracles/tensorpack_values/run.py`
makes; `--ours` names that of towerpack-compat, best one with the same TensorFlow. Each program runs in both,
on made data and with the settings of programs.toml, until its first step. All variables then get values drawn
by their names. The inputs and the random numbers are the first ones of Tensorpack. Costs, outputs of layers
and gradients of the first training tower are compared by name; of a program that only predicts, the outputs
of its first prediction. A program that asks for GPUs sees them in both, and its ops run on the CPU.

"equal" means that no element is off by more than 1e-5 of the largest one of its array. "within rounding"
means that some are, but no array by more than three times the difference of Tensorpack from itself when all
weights change by 1e-6 of their values: a gradient jumps where a ReLU changes sides. "not comparable" is a
program that computes no step, or fails in Tensorpack, for the reason in programs.toml. The exit status is 1
if a program differs, or fails for another reason.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from record_step import largest, off
from run import Prepared, prepare_program, read_programs

HERE = Path(__file__).parent
MOST = 1e-5  # relative to the largest element of an array
NEAR = 3  # times the largest difference of Tensorpack from itself, after changes as small as rounding
LONGEST_SECONDS = 600
VALUES = HERE.parent / "tensorpack_values"


def main() -> int:
    """Runs the programs, and prints a row for each of them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("examples", type=Path, help="the folder of Tensorpack's examples")
    parser.add_argument("python", help="the interpreter of Tensorpack 0.11")
    parser.add_argument("--ours", default=sys.executable, help="the interpreter of towerpack-compat")
    parser.add_argument("--only", default="", help="a regular expression of the programs to run")
    parser.add_argument("--folder", help="where data and outputs go")
    options = parser.parse_args()
    folder = Path(options.folder or tempfile.mkdtemp()).resolve()
    rows = {}
    print("| program | first step | arrays | largest difference |\n| --- | --- | ---: | --- |")
    programs = read_programs(folder)
    loaded = " ".join(text for program in programs.values() for text in program["arguments"])
    for name, program in programs.items():
        if not re.search(options.only, name):
            continue
        prepared = prepare_program(name, program, options.examples.resolve(), folder, "first step")
        if f"{{runs}}/{prepared.place.name}/" in loaded:
            prepared.settings["SAVE_WEIGHTS"] = "1"
        said = prepared.failure or _row(prepared, options.python, options.ours)
        if said.startswith("fails: Tensorpack"):
            reasons = {"no_step": "computes no step: ", "broken": "fails in Tensorpack: "}
            known = [why + program[key] for key, why in reasons.items() if key in program]
            said = f"not comparable: {known[0]}" if known else said
        rows[name] = said.split(" | ")
        print(f"| {' | '.join([name, *rows[name]])} |", flush=True)
    kinds = Counter(row[0].partition(":")[0] for row in rows.values())
    print("\n" + ", ".join(f"{count} {kind}" for kind, count in kinds.items()))
    return int(not kinds.keys() <= {"equal", "within rounding", "not comparable"})


def _row(prepared: Prepared, theirs: str, ours: str) -> str:
    interpreters = {"Tensorpack": theirs, "towerpack-compat": ours}
    for library, interpreter in interpreters.items():
        said = _record(library, prepared, interpreter)
        if said:
            return f"fails: {library}: {said}"
    files = [prepared.place / f"{library}.npz" for library in interpreters]
    cells = compared(*files)
    if not cells.startswith("equal"):
        _record("changed", prepared, theirs, CHANGE_WEIGHTS="1")
        cells = compared(*files, prepared.place / "changed.npz")
    return cells


def _record(name: str, prepared: Prepared, interpreter: str, **settings: str) -> str:
    """Records the first step in a file, and returns the program's last line if there is none."""
    file = prepared.place / f"{name}.npz"
    file.unlink(missing_ok=True)
    for folder in filter(Path.is_dir, list(prepared.place.iterdir())):
        shutil.rmtree(folder)  # logs and exports of the last run
    theirs = prepared.place / "Tensorpack.npz"
    command = [interpreter, *prepared.python, HERE / "record_step.py", theirs, file, *prepared.command]
    said = _run(command, prepared, file.with_suffix(".txt"), settings)
    return "" if file.exists() else said


def _run(command: list[Any], prepared: Prepared, output: Path, settings: dict[str, str]) -> str:
    """Runs a command and the processes that it starts to its end, and returns its last line."""
    paths = [HERE / "modules", VALUES, os.environ.get("PYTHONPATH")]
    if "CUDA_VISIBLE_DEVICES" in prepared.settings:
        settings["TOWERPACK_COMPAT_DRY_RUN"] = "1"  # in which towerpack-compat counts them, too
    settings = {
        "TF_ENABLE_ONEDNN_OPTS": "1",  # without it, TensorFlow 2.17 cannot dilate or split convolutions
        # TensorFlow makes these threads at its first session; a sum over parts rounds by their number.
        "TF_NUM_INTRAOP_THREADS": "1",
        "TENSORPACK_SERIALIZE": "msgpack",  # of the made databases
        **os.environ,
        "CUDA_VISIBLE_DEVICES": "",
        **prepared.settings,
        **settings,
        "TENSORPACK_DATASET": str(prepared.data),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "MPLBACKEND": "agg",
        "PYTHONPATH": os.pathsep.join(str(path) for path in paths if path),
    }
    with open(output, "w") as file:
        process = subprocess.Popen(
            command, cwd=prepared.place, env=settings, stdin=subprocess.DEVNULL,
            stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(LONGEST_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    lines = output.read_text(errors="replace").strip().splitlines() or [""]
    errors = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Exit)\b", line)]
    return (errors or lines)[-1][:160].replace("|", "/")


def compared(theirs: Path, ours: Path, changed: Path | None = None) -> str:
    """Returns the cells of a program: whether it is equal, the number of arrays, the largest difference."""
    first, second = (dict(np.load(path)) for path in (theirs, ours))
    spread = dict(np.load(changed)) if changed and changed.exists() else {}
    expected, received = ({k: v for k, v in each.items() if k[0] not in "<~"} for each in (first, second))
    # The names of outputs differ by layer, with the reasons of `tensorpack_values/compare.py`.
    missing = [key for key in expected.keys() ^ received.keys() if not key.startswith("output")]
    if missing:
        return f"differs: {', '.join(sorted(missing)[:3])} on one side alone | {len(expected)} | "
    scales: dict[str, float] = {}
    for key, value in expected.items():
        kind = key.split("|")[0]
        scales[kind] = max(scales.get(kind, 0.0), largest(value))
    found, far = {}, False
    for key in sorted(expected.keys() & received.keys()):
        # What is zero but for rounding, as the gradient of a bias in front of a normalization.
        zero = max(largest(expected[key]), largest(received[key])) <= MOST * scales[key.split("|")[0]]
        found[key] = 0.0 if zero else off(expected[key], received[key])
        far |= found[key] > max(MOST, NEAR * float(spread.get(f"~{key}", 0)))
    worst = max(found, key=lambda key: found[key])
    said = "equal" if found[worst] <= MOST else "differs" if far else "within rounding"
    own = f"; Tensorpack from itself {spread.get(f'~{worst}', 0):.1e}" if found[worst] > MOST else ""
    return f"{said} | {len(found)} | {found[worst]:.1e} of {worst.replace('|', ' ')}{own}"


if __name__ == "__main__":
    sys.exit(main())
