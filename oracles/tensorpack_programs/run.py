"""Runs Tensorpack's examples by towerpack-compat, as they are and after `migrate`, on small made data.

It prints a table. Run it with the path of a checkout of Tensorpack's examples; it downloads nothing:

    python oracles/tensorpack_programs/run.py /path/to/examples [--only mnist] [--steps 3] [--folder work]

Beside towerpack-compat[full,migrate], the programs need ale-py, gymnasium, matplotlib, msgpack-numpy,
pycocotools and SciPy. Some rows load files that earlier rows write: those of FasterRCNN, and enet-pat, which
loads VGG-19.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from made_data import make
from python_run import run_python

HERE = Path(__file__).parent
WAYS = {"as it is": "runs", "after migrate": "migrated"}
FOLDERS = {**WAYS, "first step": "first"}


def main() -> int:
    """Runs the programs, and returns 1 if one failed that Tensorpack itself can run."""
    options = _options()
    folder = Path(options.folder or tempfile.mkdtemp()).resolve()
    ways = [way for way in WAYS if options.way in (None, way)]
    failed = dict.fromkeys(ways, 0)
    columns = ["program", *(f"runs {way}" for way in ways), "figure", "seconds"]
    print(f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}", flush=True)
    for name, program in read_programs(folder).items():
        if not re.search(options.only, name):
            continue
        program = {"steps": options.steps, **program}
        cells, figures, seconds = [], [], []
        for way in ways:
            start = time.monotonic()
            said, figure = _result(name, program, Path(options.examples).resolve(), folder, way)
            seconds.append(f"{time.monotonic() - start:.0f}")
            if said.startswith("no") and "broken" in program:
                said = f"no; nor by Tensorpack: {program['broken']}"
            failed[way] += said.startswith("no: ")
            cells.append(said)
            figures += [figure] if figure else []
        shown = f"{program['figure']} {', '.join(figures)}" if figures else ""
        print(f"| {' | '.join([name, *cells, shown, ', '.join(seconds)])} |", flush=True)
    print("\n" + "; ".join(f"{count} failed {way}" for way, count in failed.items()))
    return int(any(failed.values()))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("examples", help="the folder of Tensorpack's examples")
    parser.add_argument("--only", default="", help="a regular expression of the programs to run")
    parser.add_argument("--steps", type=int, default=3, help="the steps of each training")
    parser.add_argument("--way", choices=WAYS, help="fill this column alone")
    parser.add_argument("--folder", help="where data and outputs go")
    return parser.parse_args()


def read_programs(folder: Path) -> dict[str, dict[str, Any]]:
    """Makes the data of the programs in a folder, and returns the programs by name."""
    make(folder / "data")
    (folder / "weights").mkdir(exist_ok=True)
    programs = tomllib.loads((HERE / "programs.toml").read_text(encoding="utf-8"))
    shared = programs.pop("shared")
    for program in programs.values():
        written = [part for text in program.get("arguments", []) for part in shared.get(text, [text])]
        program["arguments"] = written
    return programs


class Prepared(NamedTuple):
    """A program that can run: its command, its folder, and how its preparation failed, or ""."""

    python: list[str]
    command: list[str]
    place: Path
    data: Path
    settings: dict[str, str]
    marks: int
    failure: str


def prepare_program(
    name: str, program: Mapping[str, Any], examples: Path, folder: Path, way: str
) -> Prepared:
    """Makes the folder and the weights of a program, and migrates it if the way says so."""
    runs, data = folder / FOLDERS[way], folder / "data"
    place = runs / re.sub("[/#]", "-", name)
    place.mkdir(parents=True, exist_ok=True)
    marks, inside, migrated = 0, name.partition("/")[0], folder / "programs"
    settings = [*program.get("settings", ()), *program.get(way, ())]
    if settings:
        target = folder / "settings" / f"{place.name}-{FOLDERS[way]}"
        examples = _with_settings(examples / inside, target, settings)
        migrated = examples / "migrated"
    if way == "after migrate":
        marks = _migrate(examples / inside, migrated / inside)
        examples = migrated
    places = {"data": data, "weights": folder / "weights", "examples": examples, "runs": runs}
    arguments, made = (
        [text.format(**places) for text in program.get(key, ())] for key in ("arguments", "weights")
    )
    command = [str(examples / name.partition("#")[0]), *arguments]
    said = _make_weights(made, command, place, data)
    environment = {"CUDA_VISIBLE_DEVICES": program["gpus"]} if "gpus" in program else {}
    return Prepared(program.get("python", []), command, place, data, environment, marks, said)


def _result(name: str, program: Mapping[str, Any], examples: Path, folder: Path, way: str) -> tuple[str, str]:
    """Runs a program, and returns the cell of the table and the figure, or "" without one."""
    python, command, place, data, settings, marks, said = prepare_program(
        name, program, examples, folder, way
    )
    steps = str(program["steps"])
    if way == "as it is":
        command = ["-m", "towerpack_compat", "run", "--dry-run", steps, *command]
    else:
        settings["TOWERPACK_COMPAT_DRY_RUN"] = steps
    said = said or run_python([*python, *command], place, data, settings)
    cell = f"no: {said}" if said else "yes" if not marks else f"yes; lines that migrate marked: {marks}"
    return cell, _figure(place, program.get("figure"))


def _with_settings(source: Path, target: Path, settings: list[list[str]]) -> Path:
    """Copies a folder of examples into another one, with other values of settings."""
    shutil.copytree(source, target / source.name, dirs_exist_ok=True)
    for file, before, after in settings:
        copy = target / source.name / file
        text = copy.read_text()
        assert before in text, (file, before)
        copy.write_text(text.replace(before, after))
    return target


def _migrate(source: Path, target: Path) -> int:
    """Copies a folder of examples, migrates the copy, and returns the number of lines left to a person."""
    marks = target.with_suffix(".marks")
    if not marks.exists():
        shutil.copytree(source, target, dirs_exist_ok=True)
        command = [sys.executable, "-m", "towerpack_compat", "migrate", "--write", str(target)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode not in (0, 3):
            raise SystemExit(f"migrate {source}: {done.stderr}")
        marks.write_text(done.stderr)
        assert bool(done.returncode) == bool(done.stderr.strip()), done
    return len(marks.read_text().splitlines())


def _make_weights(made: list[str], command: list[str], place: Path, data: Path) -> str:
    """Makes the weights that a program loads, a path and the kind of their names, unless they are there."""
    if not made or (place / made[0]).exists():
        return ""
    said = run_python([str(HERE / "made_weights.py"), *made, *command], place, data, {})
    if said:
        (place / made[0]).unlink(missing_ok=True)
    return said and f"its weights: {said}"


def _figure(place: Path, name: str | None) -> str:
    """Returns the last value of a statistic that a program recorded."""
    for path in place.glob("train_log/*/stats.json"):
        for row in reversed(json.loads(path.read_text())):
            if name in row:
                return f"{row[name]:.4g}"
    return ""


if __name__ == "__main__":
    sys.exit(main())
