"""Each contract of import-linter breaks once an import that it forbids is planted in a copy of sources."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from source_files import ROOT, WHEELS

CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
FOR_TYPES = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import {}\n"
LAZY = "def _planted():\n    import {}\n"

# For each contract: the file that gets an import, in which form, of what. A list, where one contract holds
# several wheels.
PLANTS = {
    "trainers stand on the others; inputsource on dataflow; compat on all; nothing else": [
        ("trainers/_errors", LAZY, "compat"),
        ("inputsource/_errors", FOR_TYPES, "callbacks"),
    ],
    "layers and callbacks know no sibling": [("layers/_errors", LAZY, "dataflow")],
    "dataflow never reaches TensorFlow, even indirectly": [("dataflow/_errors", LAZY, "tensorflow")],
    "trainers see data only through input sources": [("trainers/_errors", FOR_TYPES, "dataflow")],
    "floors of dataflow": [("dataflow/_errors", FOR_TYPES, "dataflow.flow._flow")],
    "floors of dataflow's runtime": [("dataflow/runtime/transport/_slots", LAZY, "dataflow.runtime.pool")],
    "floors of inputsource": [("inputsource/_source", LAZY, "inputsource.queued")],
    "floors of layers": [("layers/tower/__init__", FOR_TYPES, "layers.nn")],
    "floors of callbacks": [("callbacks/callback/_callback", FOR_TYPES, "callbacks.monitors")],
    "floors of trainers": [("trainers/base/_trainer", LAZY, "trainers.replicate")],
    "what rewrites scripts needs no TensorFlow": [("compat/migrate/_findings", LAZY, "tensorflow")],
    "floors of trainers' base": [("trainers/base/_trainer", LAZY, "trainers.base._tower_trainer")],
    "no two siblings import each other in a circle, at any depth": [
        ("dataflow/flow/_epoch", LAZY, "dataflow.flow._flow"),
        ("inputsource/queued/_queue_input", FOR_TYPES, "inputsource.queued._batch_queue_input"),
        ("layers/arguments", LAZY, "layers.nn._conv"),
        ("callbacks/checkpoint/_run_writer", LAZY, "callbacks.checkpoint._savers"),
        ("trainers/towers/_tower", FOR_TYPES, "trainers.towers._evaluation_tower"),
        ("compat/names/__init__", LAZY, "compat._resolve"),
    ],
}
CASES = [(name, *plant) for name, plants in PLANTS.items() for plant in plants]


def test_every_contract_has_a_plant():
    assert [contract["name"] for contract in CONTRACTS] == list(PLANTS)


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    root = tmp_path_factory.mktemp("copy")
    shutil.copy(ROOT / "pyproject.toml", root)
    for wheel in WHEELS:
        package = f"towerpack_{wheel}"
        shutil.copytree(ROOT / "packages" / wheel / "src" / package, root / package)
    return root


def lint(root: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(root), "COLUMNS": "200"}
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode in {0, 1}, done.stderr
    return done.stdout


def test_the_copy_keeps_all_contracts(copy):
    assert "0 broken" in lint(copy)


@pytest.mark.parametrize(("contract", "file", "form", "what"), CASES, ids=[case[1] for case in CASES])
def test_a_planted_import_breaks_its_contract(copy, contract, file, form, what):
    path = copy / f"towerpack_{file}.py"
    sources = path.read_text()
    path.write_text(f"{sources}\n\n{form.format(what if what == 'tensorflow' else f'towerpack_{what}')}")
    try:
        assert f"{contract} BROKEN" in lint(copy)
    finally:
        path.write_text(sources)
