"""Substitutes: the same in every run, listed, and limited."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towerpack_dataflow import (
    ArgumentError,
    BatchData,
    DataFromGenerator,
    DataFromList,
    ErrorLimitError,
    MapData,
    MultiProcessRunner,
    NotAddressableError,
    SubstituteData,
)
from towerpack_dataflow.testing import check_dataflow

SIZE = 30


def fails_at(bad):
    def check(dp, rng):
        if dp[0] in bad:
            raise ValueError(f"no {dp[0]}")
        return [dp[0], rng.random()]

    return check


def make(bad, seed=0, **options):
    flow = SubstituteData(
        MapData(DataFromList([[k] for k in range(SIZE)]), fails_at(bad), rng=True), **options
    )
    flow.seed(seed)
    return flow


@given(st.sets(st.integers(0, SIZE - 1), max_size=8), st.integers(0, 5))
def test_datapoints_that_do_not_fail_are_unchanged_and_none_is_missing(bad, seed):
    flow, plain = make(bad, seed), make(set(), seed)
    for _ in range(2):
        got, expected = list(flow), list(plain)
        assert len(got) == SIZE
        for one, other in zip(got, expected):
            assert one == other if other[0] not in bad else one[0] not in bad and one in expected
    assert flow.datapoint(1, 7) == got[7]
    assert {entry["index"] for entry in flow.quarantined if entry["epoch"] == 1} == {
        index for index, other in enumerate(expected) if other[0] in bad
    }


def test_the_file_of_several_processes_is_read_on_from_where_it_was(tmp_path):
    one, other = (make({3}, quarantine=tmp_path / "list") for _ in range(2))
    list(one), list(other)
    assert [entry["index"] for entry in one.quarantined] == [entry["index"] for entry in other.quarantined]
    (tmp_path / "list").write_text('{"epoch": 5, "index": 1')  # a new file with an incomplete line
    assert len(one.quarantined) == 1
    with open(tmp_path / "list", "a") as file:
        file.write(', "substitute": 2, "error": "x"}\n')
    assert one.quarantined[-1]["epoch"] == 5


@pytest.mark.slow
def test_it_keeps_the_promises_of_a_flow():
    check_dataflow(make({3, 4, 17}), positions=3)


@pytest.mark.slow
@pytest.mark.parametrize("start_method", ["fork", "spawn", "thread"])
def test_workers_yield_the_same_and_share_the_list(tmp_path, start_method):
    path = tmp_path / "bad.jsonl"
    expected = [*make({3, 4}), *make({3, 4})]
    flow = make({3, 4}, quarantine=path)
    runner = MultiProcessRunner(flow, 2, start_method=start_method)
    assert list(runner) == expected[:SIZE]
    lines = [json.loads(line) for line in path.read_text().splitlines()]  # of the next pass, too, read ahead
    assert all(list(line) == ["epoch", "index", "substitute", "error"] for line in lines)
    errors = {entry["error"] for entry in flow.quarantined if not entry["epoch"]}
    assert errors == {"ValueError('no 3')", "ValueError('no 4')"}


def test_it_resumes():
    whole = list(BatchData(make({3, 4, 17}), 5))
    state = BatchData(make({3, 4, 17}), 5).state_at(4)
    resumed = BatchData(make({3, 4, 17}), 5)
    resumed.load_state_dict(state)
    assert len(whole) == 6 and [str(batch) for batch in resumed] == [str(batch) for batch in whole[4:]]


def test_a_trace_shows_the_substitute():
    flow = make({3})
    index = [number for number, _ in make(set())].index(3)
    (entry,) = (list(flow), flow.quarantined)[1]
    assert flow.trace(index).origins[0].index == entry["substitute"] != index == entry["index"]


def test_too_many_errors_are_an_error_across_runs(tmp_path):
    path = tmp_path / "bad.jsonl"
    with pytest.raises(ErrorLimitError, match=r"more than max_errors=2 .*bad.jsonl lists them.*ValueError"):
        list(make({1, 2, 3}, quarantine=path, max_errors=2))
    assert len(path.read_text().splitlines()) == 3
    with pytest.raises(ErrorLimitError, match="more than max_errors=2"):
        list(make({1}, quarantine=path, max_errors=2))
    with pytest.raises(ErrorLimitError, match="and so did 10 substitutes"):
        list(make(set(range(SIZE))))


def test_wrong_arguments_are_refused():
    with pytest.raises(ArgumentError, match="max_errors is an integer from 1 up"):
        make(set(), max_errors=0)
    with pytest.raises(NotAddressableError):
        SubstituteData(DataFromGenerator(lambda: iter([[1]])))


@pytest.mark.parametrize("torn", [b'{"epoch": 0, "ind', b'{"epoch": 0}', b"\xff\0", b"[1, 2]", b"{}\n{"])
def test_a_part_of_a_line_in_the_list_ends_no_later_run(tmp_path, caplog, torn):
    path = tmp_path / "list"
    list(make({3}, quarantine=path))
    whole = path.read_bytes()
    path.write_bytes(whole + torn)
    expected = [repr(ValueError(f"no {number}")) for number in (3, 4)]
    for _ in range(2):
        flow = make({3, 4}, quarantine=path)
        list(flow)
        assert sorted(entry["error"] for entry in flow.quarantined) == expected
        assert "is ignored" in caplog.text
    assert path.read_bytes().startswith(whole + torn + b"\n")
