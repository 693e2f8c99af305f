"""Runs programs of other people's repositories by towerpack-compat, for three steps on small made data.

It prints a table. Run it with the path of a folder with checkouts; it downloads nothing:

    python oracles/tensorpack_programs/repositories.py /path/to/checkouts [--only moco] [--folder work]

The repositories are those of repositories.toml. Each program runs unchanged, in a copy of its checkout with
other values of the settings that users edit. The exit status is 1 if fewer than seven run.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from made_data import make, make_for_repositories
from python_run import run_python

__all__: list[str] = []

STEPS = 3
LEAST = 7


def main() -> int:
    """Runs the programs, and returns 1 if fewer run than are asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkouts", help="the folder of the checkouts")
    parser.add_argument("--only", default="", help="a regular expression of the repositories to run")
    parser.add_argument("--least", type=int, default=LEAST, help="how many must run")
    parser.add_argument("--folder", help="where data and outputs go")
    options = parser.parse_args()
    folder = Path(options.folder or tempfile.mkdtemp()).resolve()
    make(folder / "data")
    make_for_repositories(folder / "data")
    repositories = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    wanted = {name: entry for name, entry in repositories.items() if re.search(options.only, name)}
    print("| repository | program | trains | seconds |\n| --- | --- | --- | --- |", flush=True)
    running = 0
    for name, entry in wanted.items():
        start = time.monotonic()
        said = _result(Path(options.checkouts) / name, entry, folder)
        running += not said
        why = entry.get("broken", said)
        cells = [f"[{name}]({entry['address']})", entry["program"][0], f"no: {why}" if said else "yes"]
        print(f"| {' | '.join(cells)} | {time.monotonic() - start:.0f} |", flush=True)
    print(f"\n{running} of {len(wanted)} run")
    return int(running < options.least)


def _result(checkout: Path, entry: Mapping[str, Any], folder: Path) -> str:
    """Runs the program of a repository, and returns why it does not train, or ""."""
    if not checkout.is_dir():
        return f"there is no checkout {checkout.name}"
    copy, data = folder / "repositories" / checkout.name, folder / "data"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(checkout, copy, ignore=shutil.ignore_patterns(".git", "train_log"))
    places = {"data": data, "copy": copy}
    place = copy / entry.get("folder", ".")
    for file, before, after in entry.get("settings", ()):
        text = (place / file).read_text() if (place / file).is_file() else ""
        if before not in text:
            return f"{file} has no {before!r}"
        (place / file).write_text(text.replace(before, after.format(**places)))
    settings = {key: value.format(**places) for key, value in entry.get("env", {}).items()}
    settings["PYTHONPATH"] = os.pathsep.join(str(copy / path) for path in entry.get("paths", ()))
    command = [*entry.get("python", ()), "-m", "towerpack_compat", "run", "--dry-run", str(STEPS)]
    command += [word.format(**places) for word in entry["program"]]
    output = folder / "repositories" / f"{checkout.name}.txt"
    said = run_python(command, place, data, settings, output)
    # A trainer lists the variables before it trains, and the status is not 0 if it ends before its steps.
    if not said and not re.search(entry.get("shows", r"\d+ trainable variables"), output.read_text()):
        said = "its output shows no training"
    return said


if __name__ == "__main__":
    sys.exit(main())
