"""A trace records a timeline of all processes, and changes nothing else."""

import json
import os
import re
import signal
import sys

import cloudpickle
import numpy as np
import pytest

from towerpack_dataflow import (
    ArgumentError,
    BatchData,
    DataFromList,
    MapData,
    MultiProcessMapData,
    MultiProcessRunner,
    MultiThreadRunner,
    TestDataSpeed,
    WorkerDiedError,
    get_worker_info,
    process_spans,
)
from towerpack_dataflow.__main__ import main

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers need not import pytest


def double(datapoint):
    with process_spans().span("double", "mine"):
        return [np.full(2000, 2 * datapoint[0])]


def batches():
    return BatchData(MapData(DataFromList([[i] for i in range(64)]), double), 4)


def numbers(flow):
    return [datapoint[0][:, 0].tolist() for datapoint in flow]


def traced(flow, path, size=16):
    summary = TestDataSpeed(flow, size=size).timeline(str(path))
    spans, names = read(path)
    assert summary.spans == len(spans) and summary.processes == len({span["pid"] for span in spans})
    return spans, names


def read(path):
    """Returns the spans of a file, and the names of processes and threads, all as the format has them."""
    whole = json.loads(path.read_text())
    assert whole["otherData"]["clock"] == "CLOCK_MONOTONIC" and whole["otherData"].keys() >= {
        "host",
        "boot_id",
    }
    names, spans = {}, []
    for event in whole["traceEvents"]:
        assert {"name", "ph", "ts", "pid", "tid"} <= event.keys()
        if event["ph"] == "M":
            names[event["pid"], event["tid"]] = event["args"]["name"]
        elif event["ph"] == "X":
            assert event["dur"] >= 0 and isinstance(event["args"], dict)
            spans.append(event)
    assert all((span["pid"], span["tid"]) in names and (span["pid"], 0) in names for span in spans)
    check_nesting(spans)
    return spans, names


def check_nesting(spans):
    """Of two spans of a thread that overlap, one lies in the other."""
    for track in {(span["pid"], span["tid"]) for span in spans}:
        around = []
        ours = [span for span in spans if (span["pid"], span["tid"]) == track]
        for span in sorted(ours, key=lambda span: (span["ts"], -span["dur"])):
            begin, end = span["ts"], span["ts"] + span["dur"]
            while around and around[-1] <= begin:
                around.pop()
            assert not around or end <= around[-1] + 0.01
            around.append(end)


def tracks(spans, names):
    """Returns the categories of the spans of each process, by its name."""
    found = {}
    for span in spans:
        found.setdefault(names[span["pid"], 0], set()).add(span["cat"])
    return found


@pytest.mark.slow
def test_worker_processes_are_tracks_with_their_stages(tmp_path, capsys):
    flow = MultiProcessRunner(batches(), 2, start_method="spawn")
    flow.seed(0)
    plain = batches()
    plain.seed(0)
    assert numbers(flow) == numbers(plain)  # its workers run before there is a trace
    spans, names = traced(flow, tmp_path / "out.json")
    workers = tracks(spans, names)
    assert workers.pop("consumer") == {"wait", "produce"}
    assert sorted(workers) == ["worker 0 of 2", "worker 1 of 2"]
    assert all({"produce", "map", "collate", "copy", "mine"} <= stages for stages in workers.values())
    assert {"BatchData(4)", "MapData(double)", "DataFromList"} <= {span["name"] for span in spans}
    index_ranges = [span["args"] for span in spans if span["name"] == "produce"]
    assert sum(end - begin for begin, end in (args["datapoints"] for args in index_ranges)) >= 16
    assert all(args["cpu_ms"] >= 0 for args in index_ranges)
    assert numbers(flow) == numbers(plain) and os.listdir(tmp_path) == ["out.json"]
    assert re.search(r"TestDataSpeed: \d+ spans of 3 processes: \S+out.json", capsys.readouterr().out)


@pytest.mark.slow
def test_a_map_by_processes_shows_who_maps_and_who_reads(tmp_path, capsys):
    source = DataFromList([[i] for i in range(64)])
    flow = BatchData(MultiProcessMapData(source, 1, double, start_method="spawn"), 4)
    spans, names = traced(flow, tmp_path / "out.json")
    found = tracks(spans, names)
    assert {"copy", "map", "mine"} <= found.pop("worker 0 of 1")
    assert {"collate", "produce", "wait"} <= found.pop("consumer") and not found


def test_threads_are_tracks_of_the_consumers_process(tmp_path, capsys):
    spans, names = traced(MultiThreadRunner(batches(), 2), tmp_path / "out.json")
    threads = {names[span["pid"], span["tid"]] for span in spans}
    assert {"towerpack worker 0", "towerpack worker 1"} <= threads
    assert set(tracks(spans, names)) == {"consumer"}


def test_without_workers_the_flow_is_left_as_it_was(tmp_path, capsys):
    flow, plain = batches(), batches()
    for each in (flow, plain):
        each.seed(0)
    below = flow.ds
    spans, names = traced(flow, tmp_path / "out.json")
    assert tracks(spans, names) == {"consumer": {"collate", "map", "produce", "mine"}}
    assert flow.ds is below and numbers(flow) == numbers(plain)
    maps = [span["dur"] for span in spans if span["name"] == "MapData(double)"]
    batch = [span["dur"] for span in spans if span["name"] == "BatchData(4)"]
    assert len(maps) == 4 * len(batch) and sum(batch) >= sum(maps)


@pytest.mark.slow
def test_a_killed_worker_leaves_its_spans(tmp_path, capsys):
    def fatal(datapoint):
        if datapoint[0] == 20:
            os.kill(os.getpid(), signal.SIGKILL)
        return [np.full(9, get_worker_info().number)]

    path = tmp_path / "out.json"
    flow = MapData(DataFromList([[i] for i in range(64)], shuffle=False), fatal)
    # With a time limit, each datapoint is a separate message, so its spans are written before the next one.
    runner = MultiProcessRunner(flow, 1, start_method="spawn", timeout=60)
    with pytest.raises(WorkerDiedError, match=r"was killed by SIGKILL.*datapoint 20 of epoch 0"):
        TestDataSpeed(runner).timeline(str(path))
    spans, names = read(path)
    assert {"produce", "map", "copy"} <= tracks(spans, names)["worker 0 of 1"]
    assert os.listdir(tmp_path) == ["out.json"]


@pytest.mark.slow
def test_a_process_has_a_limited_number_of_spans(tmp_path, monkeypatch):
    monkeypatch.setenv("TOWERPACK_TRACE", str(tmp_path))
    spans = process_spans()
    for _ in range(100_010):
        spans.add("again", "mine", 0.0)
    spans.flush()
    (file,) = tmp_path.iterdir()
    lines = file.read_text().splitlines()
    assert sum('"ph": "X"' in line for line in lines) == 100_000
    assert "no further spans of this process: limit of 100,000" in lines[-1]


def test_nothing_is_recorded_while_no_trace_is_made(tmp_path, monkeypatch):
    monkeypatch.delenv("TOWERPACK_TRACE", raising=False)
    nothing = process_spans()
    with nothing.span("double", "mine"):
        nothing.add("wait", "wait", 0.0)
    nothing.flush()
    assert process_spans() is nothing
    assert process_spans(str(tmp_path / "complete")) is nothing  # a late worker of a trace that is complete


def test_the_command(tmp_path, monkeypatch, capsys):
    (tmp_path / "data.py").write_text("flow = [[1], [2], [3]] * 10\n")
    monkeypatch.chdir(tmp_path)
    assert main(["bench", "data.py:flow", "--trace", "out.json"]) == 0
    spans, _ = read(tmp_path / "out.json")
    assert spans and "spans of 1 process: out.json" in capsys.readouterr().out
    assert main(["bench", "data.py:flow", "--trace", "nowhere/out.json"]) == 2
    text = "error: path is a file in a writable directory; received 'nowhere/out.json'"
    assert text in capsys.readouterr().err


def test_the_processor_time_of_a_datapoint_is_reported(capsys):
    def busy(datapoint):
        return [sum(range(20_000))]

    result = TestDataSpeed(MapData(DataFromList([[i] for i in range(50)]), busy), size=50).start()
    assert 0 < result.cpu_ms_per_datapoint < 1e3 * 2 * result.seconds
    assert "CPU-ms/datapoint" in capsys.readouterr().out


def test_errors(tmp_path):
    with pytest.raises(ArgumentError, match="path is a file in a writable directory; received"):
        TestDataSpeed([[1]]).timeline(str(tmp_path / "nowhere" / "out.json"))
