"""Without order, each datapoint still comes exactly once: in a pass, after a stop, with other workers."""

import json
import sys
import threading
from itertools import islice

import cloudpickle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from towerpack_dataflow import (
    BatchData,
    DataFromGenerator,
    DataFromList,
    FixedSizeData,
    MapData,
    MultiProcessMapAndBatchData,
    MultiProcessMapData,
    MultiProcessRunner,
    MultiThreadMapData,
    MultiThreadRunner,
    RepeatedData,
)

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers need not import pytest


def uneven(dp, rng):
    """The results of several workers cross one another."""
    threading.Event().wait(rng.choice([0.0, 0.0, 0.002]))
    return [*dp, rng.random()]


def uneven_some(dp, rng):
    dp = uneven(dp, rng)
    return dp if dp[-1] < 0.6 else None


def addressable(size):
    return DataFromList([[number] for number in range(size)])


def stream(size):
    return DataFromGenerator(lambda: ([number] for number in range(size)))


def sifted(size):
    return MapData(addressable(size), lambda dp: dp if dp[0] % 3 else None, drops=True)


def surprising(size):
    return MapData(addressable(size), lambda dp: dp if dp[0] % 5 != 4 else None)


sources = st.sampled_from([addressable, stream, sifted, surprising])
sizes = st.integers(1, 60)
threads = st.integers(1, 4)


def texts(datapoints):
    return sorted(map(str, datapoints))


def check(flow, again, passes, data):
    """A pass that is stopped somewhere and resumed elsewhere has each datapoint once, and so has the next."""
    stop = data.draw(st.integers(0, len(passes[0])), label="stopped at")
    iterator = iter(flow)
    got = list(islice(iterator, stop))
    state = json.loads(json.dumps(flow.state_dict()))
    again.load_state_dict(state)
    assert texts(got + list(again)) == texts(passes[0])
    assert texts(again) == texts(passes[1])
    assert texts(got + list(iterator)) == texts(passes[0])


def test_a_map_resumes_with_overtaken_inputs():
    overtaken = threading.Event()

    def func(dp):
        if dp[0] == 1:
            overtaken.wait(30)
        return dp

    def make(count):
        return MultiThreadMapData(
            DataFromList([[n] for n in range(3)], shuffle=False), count, func, ordered=False
        )

    flow, again = make(2), make(1)
    got = list(islice(iter(flow), 2))
    overtaken.set()
    assert got == [[0], [2]]
    again.load_state_dict(json.loads(json.dumps(flow.state_dict())))
    assert list(again) == [[1]]


@pytest.mark.parametrize("attempt", range(50))
def test_a_drop_below_that_came_to_light_ahead_is_known_to_the_state(attempt):
    """The order of results is chance; in about half of the attempts, the input before the drop comes last."""
    plain = MapData(surprising(5), uneven, rng=True)
    flow = MultiThreadMapData(surprising(5), 2, uneven, rng=True, ordered=False)
    again = MultiThreadMapData(surprising(5), 1, uneven, rng=True, ordered=False)
    plain.seed(5)
    flow.seed(5)
    got = list(islice(iter(flow), 4))
    again.load_state_dict(json.loads(json.dumps(flow.state_dict())))
    assert texts(got + list(again)) == texts(plain)


@settings(max_examples=40, deadline=None)
@given(source=sources, size=sizes, one=threads, other=threads, drops=st.booleans(), data=st.data())
def test_maps(source, size, one, other, drops, data):
    func = uneven_some if drops else uneven
    plain = MapData(source(size), func, rng=True)
    flow = MultiThreadMapData(source(size), one, func, rng=True, ordered=False)
    again = MultiThreadMapData(source(size), other, func, rng=True, ordered=False)
    plain.seed(5)
    flow.seed(5)
    check(flow, again, [list(plain), list(plain)], data)


@settings(max_examples=20, deadline=None)
@given(size=sizes, one=threads, other=threads, batch=st.integers(1, 7), data=st.data())
def test_runners_below_other_flows(size, one, other, batch, data):
    def build(count):
        runner = MultiThreadRunner(MapData(addressable(size), uneven, rng=True), count, ordered=False)
        return FixedSizeData(RepeatedData(runner, 2), 2 * size)

    plain = MapData(addressable(size), uneven, rng=True)
    plain.seed(5)
    flow = build(one)
    flow.seed(5)
    seen = [texts(flow), texts(flow)]
    assert {str(text).split(",")[0] for text in seen[0]} == {str([n])[:-1] for n in range(size)}
    assert [len(texts) for texts in seen] == [2 * size] * 2
    batches = BatchData(MultiThreadRunner(addressable(size), other, ordered=False), batch, remainder=True)
    assert sorted(n for (rows,) in batches for n in rows.tolist()) == list(range(size))


@pytest.mark.slow
@settings(max_examples=5, deadline=None)
@given(size=sizes, one=st.integers(1, 3), other=st.integers(1, 3), data=st.data())
@pytest.mark.parametrize(
    "build",
    [
        lambda ds, count: MultiProcessRunner(
            MapData(ds, uneven, rng=True), count, ordered=False, start_method="fork"
        ),
        lambda ds, count: MultiProcessMapData(
            ds, count, uneven, rng=True, ordered=False, start_method="fork"
        ),
        lambda ds, count: (
            MultiProcessRunner(
                MultiProcessRunner(MapData(ds, uneven, rng=True), 2, ordered=False, start_method="fork"),
                1,
                start_method="fork",
            ).ds
        ),
    ],
    ids=["runner", "map", "nested"],
)
def test_processes(build, size, one, other, data):
    plain = MapData(addressable(size), uneven, rng=True)
    plain.seed(5)
    flow, again = build(addressable(size), one), build(addressable(size), other)
    flow.seed(5)
    check(flow, again, [list(plain), list(plain)], data)
    for each in (flow, again):
        if each._worker_pool is not None:
            each._worker_pool.close()


def test_a_runner_over_a_flow_without_order_walks_it():
    inner = MultiThreadRunner(addressable(300), 3, ordered=False)
    assert not inner.addressable and len(inner) == 300
    assert sorted(MultiThreadRunner(inner, 3)) == [[number] for number in range(300)]


@pytest.mark.parametrize(
    "make",
    [MultiThreadMapData, lambda *args, **options: MultiProcessMapData(*args, start_method="fork", **options)],
    ids=["threads", "processes"],
)
def test_the_first_ready_datapoint_comes_first(make, tmp_path):
    def wait_for_the_others(dp):
        while dp[0] == 0 and not (tmp_path / "go").exists():
            threading.Event().wait(0.005)
        return dp

    flow = make(addressable_in_order(6), 2, wait_for_the_others, ordered=False)
    iterator = iter(flow)
    first = next(iterator)
    assert first != [0]
    (tmp_path / "go").touch()
    assert sorted([first, *iterator]) == [[number] for number in range(6)]


def addressable_in_order(size):
    return DataFromList([[number] for number in range(size)], shuffle=False)


def test_skipping_and_retrying_need_no_order_in_a_map(caplog):
    def fail(dp):
        if dp[0] % 10 == 3:
            raise ValueError(dp[0])
        return dp

    flow = MultiThreadMapData(addressable(100), 3, fail, ordered=False, on_error="skip")
    assert sorted(flow) == [[number] for number in range(100) if number % 10 != 3]
    assert "skipped 10 datapoints" in caplog.messages[-1]


def test_an_error_comes_with_its_type_and_the_rest_is_not_lost():
    def fail(dp):
        if dp[0] == 50 and not fixed:
            raise ValueError(dp[0])
        return dp

    fixed = []
    flow = MultiThreadMapData(addressable_in_order(100), 3, fail, ordered=False)
    got = []
    with pytest.raises(ValueError, match="50"):
        for datapoint in flow:
            got.append(datapoint)
    state = flow.state_dict()
    fixed.append(True)
    flow.load_state_dict(state)
    assert sorted(got + list(flow)) == [[number] for number in range(100)]


def test_a_state_taken_in_order_serves_a_flow_without_order():
    flow = MultiThreadMapData(sifted(60), 2, uneven_some, rng=True, drops=True)
    flow.seed(5)
    everything = list(flow)
    flow.load_state_dict({"seed": 5, "epoch": 0, "index": 0})
    got = list(islice(flow, 7))
    again = MultiThreadMapData(sifted(60), 2, uneven_some, rng=True, drops=True, ordered=False)
    again.load_state_dict(flow.state_dict())
    assert texts(got + list(again)) == texts(everything)


@pytest.mark.parametrize("make", [addressable, stream])
def test_map_and_batch(make):
    flow = MultiProcessMapAndBatchData(
        make(50), 2, list, 8, remainder=True, ordered=False, start_method="fork"
    )
    for _ in range(2):
        assert sorted(n for (rows,) in flow for n in rows.tolist()) == list(range(50))
