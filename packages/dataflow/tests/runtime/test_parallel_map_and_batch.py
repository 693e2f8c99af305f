"""Batches made where their datapoints are mapped equal those of `BatchData` over `MapData`."""

import json
import sys
from itertools import islice

import cloudpickle
import numpy as np
import pytest

from towerpack_dataflow import (
    BatchData,
    BatchError,
    DataFromGenerator,
    DataFromList,
    MapData,
    MultiProcessMapAndBatchData,
)
from towerpack_dataflow.testing import check_dataflow, same

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers need not import pytest


def stream(count):
    return DataFromGenerator(lambda: ([number] for number in range(count)))


def noisy(dp, rng):
    return [dp[0], np.full((3, 50_000), rng.random())]


def some(dp, rng):
    return noisy(dp, rng) if rng.random() < 0.9 else None


def both(count, size, func, **options):
    """The flow, and its equivalent."""
    workers = options.pop("workers", 2)
    plain = BatchData(MapData(stream(count), func, rng=True), size, remainder=True)
    parallel = MultiProcessMapAndBatchData(
        stream(count), workers, func, size, remainder=True, rng=True, start_method="fork", **options
    )
    for flow in (plain, parallel):
        flow.seed(3)
    return plain, parallel


def number_of_copies(flow):
    """How many of the slots' bytes the parent has copied: batches built here belong to no slot."""
    return sum(not hasattr(owner(batch[1]), "slot") for batch in flow)


def owner(array):
    while isinstance(array, (np.ndarray, memoryview)):
        array = array.base if isinstance(array, np.ndarray) else array.obj
    return array


@pytest.mark.parametrize("count", [0, 1, 7, 8, 40, 43])
def test_batches_of_a_stream_are_the_same(count):
    plain, parallel = both(count, 8, noisy)
    for _ in range(2):
        assert same(list(plain), list(parallel))


def test_batches_of_a_stream_are_made_in_the_workers_slots():
    _, parallel = both(40, 8, noisy)
    assert number_of_copies(parallel) == 0


@pytest.mark.parametrize("seed", range(4))
def test_an_undeclared_drop_shifts_later_datapoints(seed):
    plain, parallel = both(60, 4, some)
    plain.seed(seed)
    parallel.seed(seed)
    for _ in range(3):
        assert same(list(plain), list(parallel))


@pytest.mark.parametrize("func", [noisy, some])
@pytest.mark.parametrize("stop", [0, 1, 3, 6])
def test_resuming_in_the_middle(func, stop):
    plain, parallel = both(43, 4, func)
    expected = list(plain)
    got = list(islice(parallel, stop))
    state = json.loads(json.dumps(parallel.state_dict()))
    _, resumed = both(43, 4, func, workers=1)
    resumed.load_state_dict(state)
    assert same(got + list(resumed), expected)


@pytest.mark.slow
def test_it_conforms():
    check_dataflow(both(23, 4, noisy)[1], positions=3)


def test_errors_name_the_flow_they_came_out_of():
    def fail(dp):
        if dp[0] == 13:
            raise KeyError(dp[0])
        return dp

    def grow(dp):
        return [np.zeros(1 + (dp[0] > 13))]

    for func, error, name in ((fail, KeyError, "MapData"), (grow, BatchError, "BatchData")):
        flow = MultiProcessMapAndBatchData(stream(40), 2, func, 4, start_method="fork")
        got = []
        with pytest.raises(error) as caught:
            for batch in flow:
                got.append(batch)
        assert len(got) == 3
        path = caught.value.__notes__[0].split(", while")[0]
        assert path.split(" > ")[-1].startswith(name)


def test_retries_and_skips(caplog):
    failed = set()

    def flaky(dp):
        if dp[0] % 5 == 0 and dp[0] not in failed:
            failed.add(dp[0])
            raise OSError("busy")
        return dp

    flow = MultiProcessMapAndBatchData(stream(20), 1, flaky, 4, on_error="retry", start_method="fork")
    assert [row for (rows,) in flow for row in rows] == list(range(20))
    assert "retried 4 times" in caplog.messages[-1]
    flow = MultiProcessMapAndBatchData(
        DataFromGenerator(lambda: iter([[1], [0], [2], [4]])),
        1,
        lambda dp: [8 // dp[0]],
        3,
        on_error="skip",
        start_method="fork",
    )
    assert [rows.tolist() for (rows,) in flow] == [[8, 4, 2]]
    assert "skipped 1 datapoints" in caplog.messages[-1]


def test_read_only_views_on_request():
    _, parallel = both(16, 4, noisy)
    parallel.lend_read_only()
    for _, noise in parallel:
        assert not noise.flags.writeable and owner(noise).towerpack_lease


def test_an_addressable_flow_is_read_by_the_workers():
    flow = MultiProcessMapAndBatchData(
        DataFromList([[number] for number in range(20)]), 2, noisy, 4, rng=True, start_method="fork"
    )
    assert number_of_copies(flow) == 0
