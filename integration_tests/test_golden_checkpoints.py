"""Checkpoints of an earlier version load bit for bit, and trainings resume from them.

The files in `golden/` are never written again; see `golden/write.py`. How a training goes on is compared with
an uninterrupted one on this machine: floating point may come to other last bits on another.
"""

import importlib.util
import json
import shutil
import socket
import sys
from pathlib import Path

import numpy as np
import pytest

from towerpack_callbacks import CheckpointError
from towerpack_callbacks.checkpoint import latest_checkpoint, load_variables, read_checkpoint
from towerpack_dataflow import StateError
from towerpack_trainers import DictRestore, SmartInit
from towerpack_trainers.distributed import Cluster

GOLDEN = Path(__file__).parent / "golden"
IN_THIS_PROCESS = ["single", "towers", "replicated"]
ALL = [*IN_THIS_PROCESS, "processes"]  # test_golden_two_processes.py resumes these in two processes
MIDDLE = {"epoch_num": 2, "local_step": 1, "global_step": 7, "steps_per_epoch": 5}


@pytest.fixture
def copied(tmp_path):
    """Copies a golden log directory."""

    def copy(kind, name="copied"):
        return Path(shutil.copytree(GOLDEN / kind, tmp_path / name))

    return copy


def stored_variables(kind):
    with np.load(GOLDEN / kind / "variables.npz") as archive:
        return dict(archive)


def untimed(callbacks):
    """States of callbacks, without timings."""
    if not isinstance(callbacks, dict):
        return callbacks
    return {key: untimed(part) for key, part in callbacks.items() if key != "QueueInput/queue_size"}


def train(golden, kind, log_dir, **changes):
    """Trains only in this process; returns the record."""
    config, record = golden.configure(kind, log_dir, **changes)
    cluster = None
    if kind == "processes":
        with socket.create_server(("127.0.0.1", 0)) as free:
            cluster = Cluster.of([f"127.0.0.1:{free.getsockname()[1]}"], 0)
    golden.trainer_of(kind, config, cluster).train()
    return record


def position(state):
    """Where a state stands in its data: states of an earlier format did not say what these are."""
    return {key: value for key, value in state["input"]["flow"].items() if key not in {"version", "flow"}}


# ---- loading


@pytest.mark.parametrize("kind", ALL)
def test_a_golden_checkpoint_is_read_bit_for_bit(golden, kind):
    checkpoint = read_checkpoint(GOLDEN / kind)
    golden.assert_same_bits(checkpoint.variables, stored_variables(kind))
    golden.assert_same_bits(load_variables(GOLDEN / kind / "variables.npz"), stored_variables(kind))
    written = (GOLDEN / kind / "model-7" / "state.json").read_text(encoding="utf-8")
    assert checkpoint.state == json.loads(written)
    assert checkpoint.state["loop"] == MIDDLE


@pytest.mark.slow
@pytest.mark.parametrize("kind", ALL)
def test_a_training_begins_where_a_golden_checkpoint_stands(golden, copied, kind):
    """Resumes in one process, even a checkpoint of two: the total batch is the same."""
    stored = read_checkpoint(GOLDEN / kind).state
    allowed = ["world"] if kind == "processes" else []
    record = train(golden, kind, copied(kind), stop_at=8, resume="auto", resume_allow=allowed)
    golden.assert_same_bits(record.begin, stored_variables(kind))
    assert record.begins_at == (2, 2, 7)
    assert record.first_step == {**MIDDLE, "local_step": 2, "global_step": 8}
    assert record.begin_state["seed"] == stored["seed"]
    assert position(record.begin_state) == position(stored)
    assert untimed(record.begin_state["callbacks"]) == untimed(stored["callbacks"])
    assert json.loads(json.dumps(record.begin_random)) == stored["random"]
    taken = golden.load_arrays(GOLDEN / kind / "next_taken.npz")
    if kind == "processes":
        ((xs, ys),) = record.first_taken
        record.first_taken = [(xs[rank::2], ys[rank::2]) for rank in range(2)]
    for tower, (x, y) in enumerate(record.first_taken):
        golden.assert_same_bits({"x": x, "y": y}, {name: taken[f"{name}{tower}"] for name in "xy"})


@pytest.mark.slow
@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("how", ["path", "dictionary"])
def test_golden_parameters_load_bit_for_bit(golden, tmp_path, kind, how):
    path = GOLDEN / kind / "variables.npz"
    init = SmartInit(path, allow=[]) if how == "path" else DictRestore(stored_variables(kind))
    config, record = golden.configure(kind, tmp_path / "run", stop_at=8, session_init=init)
    golden.trainer_of("single" if kind == "processes" else kind, config).train()
    golden.assert_same_bits(record.begin, stored_variables(kind))


# ---- resuming


@pytest.mark.slow
@pytest.mark.parametrize("kind", IN_THIS_PROCESS)
def test_a_training_goes_on_as_an_uninterrupted_one(golden, copied, tmp_path, kind):
    whole = train(golden, kind, tmp_path / "whole")
    saved = tmp_path / "whole" / "model-7"
    assert whole.end["global_step"] == golden.LAST_STEP
    shutil.copytree(saved, tmp_path / "parts" / "model-7")
    golden.assert_same_bits(train(golden, kind, tmp_path / "parts", resume="auto").end, whole.end)

    log_dirs = [copied(kind, name) for name in ("once", "again")]
    ends = [train(golden, kind, log_dir, resume="auto").end for log_dir in log_dirs]
    ours = golden.same_bits(read_checkpoint(saved).variables, stored_variables(kind))
    golden.assert_ends_as(whole.end, ends, ours)

    once, again = (read_checkpoint(log_dir).state for log_dir in log_dirs)
    assert once["loop"] == again["loop"] == {**MIDDLE, "epoch_num": 3, "local_step": 3, "global_step": 14}
    assert once["input"] == again["input"]
    assert untimed(once["callbacks"]) == untimed(again["callbacks"])
    lines = (log_dirs[0] / "stats.jsonl").read_text().splitlines()
    assert (GOLDEN / kind / "stats.jsonl").read_text().splitlines() == lines[:1]
    assert [json.loads(line)["global_step"] for line in lines] == [5, 10, 15]


# ---- unreadable files


def edit(file, **changes):
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def test_an_unknown_format_is_refused_with_the_one_that_is_read(golden, copied):
    log_dir = copied("single")
    edit(log_dir / "model-7" / "manifest.json", format=99)
    for read in (
        lambda: read_checkpoint(log_dir),
        lambda: load_variables(log_dir),
        lambda: train(golden, "single", log_dir, resume="auto"),
    ):
        with pytest.raises(CheckpointError, match=r"model-7 has format 99; this version reads format \d+\."):
            read()


@pytest.mark.slow
def test_an_unknown_version_of_the_data_is_refused_with_the_one_that_is_read(golden, copied):
    checkpoint = latest_checkpoint(copied("single"))
    flow = read_checkpoint(checkpoint).state["input"]["flow"]
    edit(checkpoint / "state.json", input={"flow": {**flow, "version": 99}})
    files = json.loads((checkpoint / "manifest.json").read_text())["files"]
    files["state.json"] = {"bytes": (checkpoint / "state.json").stat().st_size}
    edit(checkpoint / "manifest.json", files=files)
    with pytest.raises(StateError, match=r"has version 99, and this release reads version \d+ and .*; use "):
        train(golden, "single", checkpoint.parent, resume="auto")


# ---- the files


def test_golden_checkpoints_are_there_and_are_not_written_again(monkeypatch, capsys):
    files = {path: path.read_bytes() for path in GOLDEN.rglob("*") if path.is_file() and path.suffix != ".py"}
    assert sum(map(len, files.values())) < 300_000
    monkeypatch.syspath_prepend(GOLDEN)
    spec = importlib.util.spec_from_file_location("golden_write", GOLDEN / "write.py")
    writing = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writing)
    sys.modules.pop("golden_training")
    assert list(writing.KINDS) == ALL
    assert writing.main() == 1
    assert "none is ever written again" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in files} == files
