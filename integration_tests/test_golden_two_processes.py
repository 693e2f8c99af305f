"""Two processes resume from a checkpoint of two in an earlier version; see `test_golden_checkpoints.py`."""

import shutil
import sys
from pathlib import Path

import pytest

from towerpack_callbacks.checkpoint import load_variables, read_checkpoint
from towerpack_trainers.distributed import launch

GOLDEN = Path(__file__).parent / "golden"
# Importing TensorFlow in two processes takes most of it.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def train(golden):
    """Trains in two processes; returns what each has recorded: how it began and ended, what it took first."""

    def run(log_dir, *options):
        command = [sys.executable, str(GOLDEN / "golden_training.py"), str(log_dir), *options]
        assert launch(command, 2) == 0
        return [
            {
                what: golden.load_arrays(log_dir.with_name(f"{log_dir.name}-{what}-{rank}.npz"))
                for what in ("begin", "end", "taken")
            }
            for rank in range(2)
        ]

    return run


def shared(arrays):
    """What the chief sends the others at the start; each makes averages of weights of its own."""
    own = ("/ExponentialMovingAverage", "EMA/updates")
    return {name: array for name, array in arrays.items() if not name.endswith(own)}


def trained(arrays):
    """The equal parts of both processes at the end; statistics of batches differ."""
    return {name: array for name, array in shared(arrays).items() if not name.endswith("/EMA")}


def test_two_processes_go_on_as_uninterrupted_ones(golden, train, tmp_path):
    whole = train(tmp_path / "whole")
    saved = tmp_path / "whole" / "model-7"
    shutil.copytree(saved, tmp_path / "parts" / "model-7")
    parts = train(tmp_path / "parts", "--resume", "auto")
    golden.assert_same_bits(parts[0]["end"], whole[0]["end"])

    runs = []
    for name in ("once", "again"):
        log_dir = Path(shutil.copytree(GOLDEN / "processes", tmp_path / name))
        runs.append(train(log_dir, "--resume", "auto"))
    stored = load_variables(GOLDEN / "processes" / "variables.npz")
    taken = golden.load_arrays(GOLDEN / "processes" / "next_taken.npz")
    for run in runs:
        golden.assert_same_bits(run[0]["begin"], stored)
        golden.assert_same_bits(shared(run[1]["begin"]), shared(stored))
        for rank, process in enumerate(run):
            golden.assert_same_bits(process["taken"], {name: taken[f"{name}{rank}"] for name in "xy"})
        golden.assert_same_bits(trained(run[0]["end"]), trained(run[1]["end"]))
    ours = golden.same_bits(read_checkpoint(saved).variables, stored)
    golden.assert_ends_as(whole[0]["end"], [run[0]["end"] for run in runs], ours)
