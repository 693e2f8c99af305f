"""The use of time of a run, from its record."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towerpack_callbacks.plot import Event, RunError, RunSegment, measure_goodput, read_record


def segment(*events, ended=False):
    return RunSegment(tuple(Event(*event) for event in events), ended, {})


def test_a_killed_and_resumed_run():
    first = segment((100, 0, 0), (110, 1, 50, {"wait": 2.0, "save": 1.0}), (130, 2, 100, {"wait": 9.0}))
    second = segment((137, 1, 50), (157, 2, 100, {"wait": 4.0, "save": 1.5}), ended=True)
    goodput = measure_goodput([first, second], saved_step=50)
    assert goodput.seconds == {
        "training": 7.0 + 14.5,
        "waiting for data": 6.0,
        "saving": 2.5,
        "restarting": 7.0,
        "lost since a checkpoint": 20.0,
    }
    assert goodput.share == pytest.approx(21.5 / 57)
    assert [(one.kept_step, one.ended) for one in goodput.intervals] == [(50, False), (100, True)]


def test_steps_that_a_killed_run_would_lose():
    dead = segment((0, 0, 0), (10, 1, 10), (20, 2, 20))
    assert measure_goodput([dead], 10).seconds["lost since a checkpoint"] == 10
    assert measure_goodput([dead], None).seconds["lost since a checkpoint"] == 20
    assert measure_goodput([dead], 20).seconds["lost since a checkpoint"] == 0


def test_an_empty_record():
    assert measure_goodput([], None).share == 0.0


times = st.floats(-1e9, 1e9)
spans = st.fixed_dictionaries({"wait": st.floats(-1e9, 1e9), "save": st.floats(0, 1e9)})
events = st.tuples(times, st.integers(0, 5), st.integers(0, 99), spans)
segments = st.lists(st.tuples(st.lists(events, min_size=1, max_size=4), st.booleans()), max_size=4)


@given(segments, st.none() | st.integers(0, 99))
def test_parts_add_up_for_any_record(drawn, saved):
    goodput = measure_goodput([segment(*its, ended=ended) for its, ended in drawn], saved)
    assert all(seconds >= 0 for seconds in goodput.seconds.values())
    assert 0 <= goodput.share <= 1
    for one in goodput.intervals:
        parts = one.training + one.waiting + one.saving + one.lost
        assert parts == pytest.approx(one.end - one.start, abs=1e-3)


def test_a_clock_that_is_set_back():
    back = [
        segment((0.0, 0, 0, {}), ended=False),
        segment((1.0, 0, 0, {}), (0.0, 0, 1, {}), (2.0, 0, 2, {}), ended=False),
    ]
    one = measure_goodput(back, 1).intervals[1]
    assert (one.training, one.lost) == (0.0, 1.0)


def write(path, *rows):
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (path / "run.jsonl").write_text("\n".join(lines))


START = {"event": "start", "format": 1, "time": 1.0, "epoch": 0, "step": 0}


def test_lines_that_are_damaged_are_counted(tmp_path):
    infinite = {"event": "progress", "time": float("inf"), "epoch": 1, "step": 2}
    orphan = {"event": "end", "time": 0, "epoch": 1, "step": 2}
    broken = ["[]", "\0", '{"event": 7}', "[" * 100_000, infinite]
    write(tmp_path, orphan, START, *broken, {**START, "event": "end", "step": 4}, '{"event": "pro')
    [only], unreadable = read_record(tmp_path)
    assert unreadable == 1 + len(broken)
    assert only.ended and [event.step for event in only.events] == [0, 4]


def test_no_record_and_one_of_a_later_release(tmp_path):
    assert read_record(tmp_path) == ([], 0)
    write(tmp_path, {**START, "format": 2}, "")
    with pytest.raises(RunError, match=r"run.jsonl has format 2; this version reads format 1"):
        read_record(tmp_path)
    (tmp_path / "run.jsonl").unlink()
    (tmp_path / "run.jsonl").mkdir()
    with pytest.raises(RunError, match=r"run.jsonl cannot be read"):
        read_record(tmp_path)
