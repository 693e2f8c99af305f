"""Whole processes: from `python` to the first step of a training and to its end, and commands without one.

    python benchmarks/startup.py [--smoke]

The training is examples/digits_lenet.py with its validation and checkpoints, three epochs of 44 steps; beside
it, the same in Keras. A command of the command line should be there before its user looks up.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import _rounds
import _verdicts

ROUNDS = _rounds.shorter(5)
SCRIPT = str(Path(__file__).with_name("_whole_process.py"))
COMMANDS = {
    "--help": ["--help"],
    "checkpoint ls LOG_DIR": ["checkpoint", "ls", "train_log/digits_lenet"],
    "plot LOG_DIR": ["plot", "train_log/digits_lenet", "-o", "curves.html"],
}


def seconds(command: list[str], place: str) -> float:
    """Wall time of a process that should end well."""
    begin = time.perf_counter()
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    return time.perf_counter() - begin


def process(place: str, *arguments: str) -> Callable[[], float]:
    """A run of _whole_process.py."""
    return functools.partial(seconds, [sys.executable, SCRIPT, *arguments], place)


def main() -> None:
    """Measures, prints and judges."""
    print(_rounds.heading("tensorflow", "keras", "numpy"))
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as place:
        trainings = {
            f"{who}, to the {'first step' if what == 'first' else 'end'}": process(place, who, what)
            for what in ("first", "whole")
            for who in ("towerpack", "keras")
        }
        commands = {
            name: functools.partial(seconds, [sys.executable, "-m", "towerpack_callbacks", *rest], place)
            for name, rest in COMMANDS.items()
        }
        subjects = {**trainings, **commands}
        _rounds.warm_up(subjects)
        figures = _rounds.measure(subjects, ROUNDS)
    print(f"seconds of whole processes, median of {ROUNDS} interleaved rounds (range)")
    for name, values in figures.items():
        print(f"  {name:<28} {_rounds.summary(values, '.2f')}")
    verdicts = _verdicts.Verdicts()
    for end in ("to the first step", "to the end"):
        ratios = _rounds.ratios(figures[f"towerpack, {end}"], figures[f"keras, {end}"])
        verdicts.untargeted(f"{end}, towerpack / keras", ratios)
    for name in COMMANDS:
        verdicts.at_most(f"python -m towerpack_callbacks {name}", figures[name], 0.5)
    verdicts.leave()


if __name__ == "__main__":
    main()
