"""`python -m towerpack_dataflow state`: output of the commands."""

import json
import re
import sys

import pytest

from towerpack_dataflow import BatchData, DataFromList, MapData, Trace
from towerpack_dataflow.__main__ import main

FLOWS = """
from towerpack_dataflow import BatchData, DataFromGenerator, DataFromList

def make():
    return BatchData(DataFromList([[i] for i in range(20)]), 5)

stream = DataFromGenerator(lambda: iter([[1]]))
"""


def make():
    return BatchData(DataFromList([[i] for i in range(20)]), 5)


@pytest.fixture
def flow(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flows_with_states.py").write_text(FLOWS)
    yield "flows_with_states:make"
    sys.modules.pop("flows_with_states", None)


def saved(path, state):
    path.write_text(json.dumps(state))
    return str(path)


def test_seek_prints_the_state_after_so_many(flow, capsys):
    assert main(["state", "seek", flow, "6", "--seed", "3"]) == 0
    expected = make()
    expected.seed(3)
    assert json.loads(capsys.readouterr().out) == expected.state_at(6)


def test_show_finds_the_state_in_a_file_of_a_training_run(tmp_path, capsys):
    state = make().state_at(6) | {"seed": 3, "seeds": {"0": 4}, "marks": {"": [0, 1]}}
    file = saved(tmp_path / "state.json", {"version": 1, "input": {"flow": state}})
    assert main(["state", "show", file]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "next: datapoint 2 of epoch 1, seed 3",
        "format 2",
        "  BatchData: batch_size 5, remainder False",
        "    DataFromList: length 20, shuffle True",
        "separate seed at 0: 4",
        "mark at the top: [0, 1]",
    ]


def test_diff_names_the_differences(tmp_path, capsys):
    one = saved(tmp_path / "one", make().state_at(6) | {"seed": 3})
    other = saved(tmp_path / "other", BatchData(MapData(make(), list), 2).state_at(1) | {"seed": 3})
    assert main(["state", "diff", one, one]) == 0
    assert capsys.readouterr().out == ""
    assert main(["state", "diff", one, other]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "epoch: 1 / 0",
        "index: 2 / 1",
        "flows: BatchData(DataFromList) / BatchData(MapData(BatchData(DataFromList)))",
    ]


def test_trace_of_an_index_and_of_the_datapoint_after_a_state(flow, tmp_path, capsys):
    expected = make()
    expected.seed(3)
    assert main(["state", "trace", flow, "--index", "2", "--epoch", "1", "--seed", "3"]) == 0
    assert capsys.readouterr().out == f"{expected.trace(2, 1)}\n"
    file = saved(tmp_path / "state", expected.state_at(6))
    assert main(["state", "trace", flow, "--state", file, "--json"]) == 0
    assert Trace.from_dict(json.loads(capsys.readouterr().out)) == expected.trace(2, 1)
    end = saved(tmp_path / "end", expected.state_at(6) | {"index": 4})
    assert main(["state", "trace", flow, "--state", end]) == 0
    assert capsys.readouterr().out == f"{expected.trace(0, 2)}\n"


@pytest.mark.parametrize(
    "content, message",
    [
        (None, "cannot read .*: No such file"),
        (b"{", "is not JSON"),
        (b"\xff", "is not JSON"),
        (b'{"epoch": 3}', "contains no state of a flow"),
        (b"[1]", "contains no state of a flow"),
    ],
)
def test_files_without_a_state(content, message, tmp_path, capsys):
    file = tmp_path / "state.json"
    if content is not None:
        file.write_bytes(content)
    assert main(["state", "show", str(file)]) == 2
    assert re.match(f"error: .*{message}", capsys.readouterr().err)


def test_a_stream_has_no_trace(flow, capsys):
    assert main(["state", "trace", "flows_with_states:stream", "--index", "0"]) == 2
    assert "is a stream" in capsys.readouterr().err
