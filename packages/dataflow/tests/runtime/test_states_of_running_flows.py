"""A state means the same to a flow with running workers and to a new one."""

import sys

import cloudpickle
import pytest

from towerpack_dataflow import DataFromList, MapData, MultiProcessRunner, MultiThreadRunner

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers need not import pytest
pytestmark = pytest.mark.slow


def late_odd(dp):
    """Drops without a declaration, far beyond the datapoints prefetched by workers."""
    return dp if dp[0] < 2000 or dp[0] % 3 else None


def flow(run, func=late_odd):
    return run(MapData(DataFromList([[number] for number in range(6000)], shuffle=False), func))


RUNNERS = {
    "forked": lambda ds: MultiProcessRunner(ds, 2, start_method="fork", prefetch_bytes=1),
    "spawned": lambda ds: MultiProcessRunner(ds, 1, prefetch_bytes=1),
    "threads": lambda ds: MultiThreadRunner(ds, 2, prefetch_bytes=1),
    "nested": lambda ds: MultiProcessRunner(RUNNERS["forked"](ds), 1, start_method="fork", prefetch_bytes=1),
}


def state_behind_a_drop(run):
    earlier = flow(run)
    iterator = iter(earlier)
    while next(iterator) != [2500]:
        pass
    return earlier.state_dict()


@pytest.mark.parametrize("run", RUNNERS.values(), ids=RUNNERS)
def test_a_state_with_an_unannounced_drop(run):
    state = state_behind_a_drop(run)
    running = flow(run)
    next(iter(running))  # its workers run now, and know nothing of the drop
    running.load_state_dict(state)
    expected = [[number] for number in range(2501, 6000) if number % 3]
    assert list(running) == expected
    fresh = flow(run)
    fresh.load_state_dict(state)
    assert list(fresh) == expected
