"""A trace of a training has the workers of its flow in it, and one of a flow is put beside it."""

import json
import sys

import cloudpickle
import numpy as np
import pytest

from towerpack_dataflow import DataFromList, MapData, MultiProcessRunner, TestDataSpeed
from towerpack_trainers import SimpleTrainer, TrainConfig
from towerpack_trainers.__main__ import main
from towerpack_trainers.testing import SmallFlow, SmallModel

cloudpickle.register_pickle_by_value(sys.modules[__name__])


def sort(datapoint):
    np.sort(np.random.default_rng(0).random(10_000))
    return datapoint


def tracks(path):
    """Returns the categories of the spans of each process, by its name."""
    events = json.loads(path.read_text())["traceEvents"]
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    found = {}
    for event in events:
        if event["ph"] == "X":
            found.setdefault(names[event["pid"]], set()).add(event["cat"])
    return found


@pytest.mark.slow
def test_the_workers_of_a_training_are_in_its_trace_and_beside_that_of_their_flow(tmp_path, capsys):
    with MultiProcessRunner(MapData(DataFromList(list(SmallFlow())), sort), 1) as flow:
        TestDataSpeed(flow, size=12).timeline(str(tmp_path / "flow.json"))
        config = TrainConfig(
            model=SmallModel(),
            dataflow=flow,
            extra_callbacks=[],
            monitors=[],
            steps_per_epoch=30,
            max_epoch=1,
            log_dir=None,
            trace=tmp_path / "training.json",
        )
        SimpleTrainer(config).train()
    found = tracks(tmp_path / "training.json")
    assert {"step", "session", "callback", "wait"} <= found.pop("training")
    assert {"produce", "map", "copy"} <= found.pop("worker 0 of 1") and not found
    files = [str(tmp_path / name) for name in ("flow.json", "training.json")]
    assert main(["trace", "merge", *files, "-o", str(tmp_path / "both.json")]) == 0
    events = json.loads((tmp_path / "both.json").read_text())["traceEvents"]
    ends = {
        name: [e["ts"] for e in events if e["ph"] == "X" and e["cat"] == name] for name in ("map", "step")
    }
    assert min(ends["map"]) < min(ends["step"]) < max(ends["map"])  # the flow's came first, on the same clock
