"""Traces of one machine are merged; others are refused."""

import json

import pytest

from towerpack_trainers import TraceError
from towerpack_trainers.__main__ import main
from towerpack_trainers.reports.trace import merge_traces, read_trace

CLOCK = {"clock": "CLOCK_MONOTONIC", "host": "here", "boot_id": "today"}


@pytest.fixture
def trace(tmp_path):
    def write(name, pid=1, events=None, **other):
        path = tmp_path / name
        span = {
            "name": "step",
            "cat": "step",
            "ph": "X",
            "ts": 1.5,
            "dur": 2,
            "pid": pid,
            "tid": 1,
            "args": {},
        }
        path.write_text(json.dumps({"traceEvents": events or [span], "otherData": {**CLOCK, **other}}))
        return path

    return write


def test_the_command_merges_traces(trace, tmp_path, capsys):
    one, two, out = trace("one.json", 1), trace("two.json", 2), tmp_path / "out.json"
    assert main(["trace", "merge", str(one), str(two), "-o", str(out)]) == 0
    assert capsys.readouterr().out == f"2 spans of 2 processes: {out}, for ui.perfetto.dev\n"
    merged = read_trace(out)
    assert [event["pid"] for event in merged["traceEvents"]] == [1, 2]
    assert merged["otherData"] == CLOCK
    assert merge_traces([out, one])["traceEvents"] == [
        *merged["traceEvents"],
        *read_trace(one)["traceEvents"],
    ]


@pytest.mark.parametrize(("name", "other"), [("host", "there"), ("boot_id", "yesterday"), ("clock", "UTC")])
def test_traces_of_different_clocks_are_refused(trace, name, other, tmp_path, capsys):
    one, two = trace("one.json"), trace("two.json", **{name: other})
    with pytest.raises(
        TraceError, match=f"two.json has the {name} '{other}', but .*one.json has '{CLOCK[name]}'"
    ):
        merge_traces([one, two])
    assert main(["trace", "merge", str(one), str(two), "-o", str(tmp_path / "out.json")]) == 1
    assert "Merge traces of one host since its last boot" in capsys.readouterr().err
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not a trace: it is not JSON"),
        ("[]", "is not a trace: it has no list of traceEvents"),
        ('{"traceEvents": []}', "does not describe its clock"),
        ('{"traceEvents": [], "otherData": {"clock": 1}}', "does not describe its clock"),
    ],
)
def test_files_that_are_not_traces_are_refused(tmp_path, text, message):
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(TraceError, match=f"bad.json {message}"):
        read_trace(tmp_path / "bad.json")


def test_a_missing_file(tmp_path, capsys):
    assert main(["trace", "merge", str(tmp_path / "none.json"), "-o", str(tmp_path / "out.json")]) == 1
    assert "No such file" in capsys.readouterr().err
