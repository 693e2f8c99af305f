"""A flow on a local Ray cluster: exactly its datapoints, also when actors are killed."""

import itertools
import json
import logging
import os
import signal
import sys
import threading

import numpy as np
import pytest

from towerpack_dataflow import (
    ArgumentError,
    ArgumentTypeError,
    BatchData,
    ClusterError,
    DataFromGenerator,
    DataFromList,
    MapData,
    RayRunner,
    SendError,
    WorkerDiedError,
    get_worker_info,
)
from towerpack_dataflow.testing import same

pytestmark = [pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore")]  # Ray's own warnings


@pytest.fixture(scope="module")
def cluster():
    """Ray on this machine."""
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    yield
    ray.shutdown()


def noisy(number, rng):
    return [np.full(2000, number, np.float32) + rng.random(dtype=np.float32), number]


def slowly_with_process(number):
    """Takes long enough that not all is done before the first datapoints are read."""
    return number + 0 * sum(range(12_000)), os.getpid()


def numbers(count, **options):
    return DataFromList(list(range(count)), **options)


def make_batches():
    return BatchData(MapData(numbers(120), noisy, rng=True), 4)


def two_passes(flow):
    """Twenty datapoints of two passes that are read in turn."""
    return list(itertools.islice(zip(iter(flow), iter(flow)), 20))


def test_without_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"needs the extra \[ray\]: pip install"):
        RayRunner([1, 2], 2)
    assert list(RayRunner([1, 2], 0)) == [1, 2]


@pytest.mark.slow
def test_without_a_cluster():
    pytest.importorskip("ray")
    with pytest.raises(ClusterError, match=r"not connected to one; call ray.init\(\)"):
        next(iter(RayRunner([1, 2], 2)))


def test_arguments():
    with pytest.raises(ArgumentError, match="num_workers is an integer from 0 up; received 'auto'"):
        RayRunner([1], "auto")
    with pytest.raises(ArgumentTypeError, match=r"actor_options is a dict of Ray's options.*received int"):
        RayRunner([1], 0, actor_options=2)


@pytest.mark.slow
def test_the_same_datapoints_and_states(cluster):
    with RayRunner(make_batches(), 2) as flow:
        plain = make_batches()
        flow.seed(3), plain.seed(3)
        for _ in range(2):
            assert same(list(flow), list(plain))
        begun, same_of_plain = (list(itertools.islice(iter(run), 7)) for run in (flow, plain))
        assert same(begun, same_of_plain)
        state = flow.state_dict()
        assert begun[0][0].flags.writeable
        assert same(flow.datapoint(1, 5), plain.datapoint(1, 5))
        for one, other in zip(two_passes(flow), two_passes(plain)):
            assert same(one, other)
    for resumed in (make_batches(), RayRunner(make_batches(), 1)):
        resumed.load_state_dict(state)
        rest = list(resumed)
        plain.load_state_dict(state)
        assert len(rest) == 23 and same(rest, list(plain))
    resumed.close()


@pytest.mark.slow
def test_a_killed_actor_changes_nothing(cluster, caplog):
    plain = MapData(numbers(3000), slowly_with_process)
    plain.seed(1)
    expected = [number for number, _ in plain]
    killed, found = None, []
    with RayRunner(MapData(numbers(3000), slowly_with_process), 2) as flow:
        flow.seed(1)
        for number, process in flow:
            if len(found) == 500:
                killed = process
                os.kill(killed, signal.SIGKILL)
            found.append(number)
            last = process
    assert found == expected
    assert "on Ray is lost; another one repeats its work" in caplog.text
    assert killed != os.getpid() and last != killed


@pytest.mark.slow
@pytest.mark.parametrize(
    "workers_after", [0, *(pytest.param(number, marks=pytest.mark.long) for number in (1, 3))]
)
def test_as_they_are_made_they_come_once_also_after_a_stop(cluster, workers_after):
    def drawn(number, rng):
        return number, rng.random() + 0 * sum(range(number % 7 * 4000))  # so that they overtake each other

    def make():
        return MapData(numbers(2000), drawn, rng=True)

    with RayRunner(make(), 2, ordered=False) as flow:
        flow.seed(1)
        whole = list(flow)
        seen = list(itertools.islice(iter(flow), 600))
        state = json.loads(json.dumps(flow.state_dict()))
    with RayRunner(make(), workers_after, ordered=False) as resumed:
        resumed.load_state_dict(state)
        rest, third = list(resumed), list(resumed)
    plain = make()
    plain.seed(1)
    expected = [sorted(plain) for _ in range(3)]
    assert [sorted(whole), sorted([*seen, *rest]), sorted(third)] == expected
    assert len(rest) == 1400


@pytest.mark.slow
def test_as_they_are_made_they_come_once_also_after_a_stop_and_a_loss(cluster):
    def make():
        return MapData(numbers(3000), slowly_with_process)

    with RayRunner(make(), 2, ordered=False) as flow:
        flow.seed(1)
        seen = list(itertools.islice(iter(flow), 500))
        state = flow.state_dict()
    with RayRunner(make(), 2, ordered=False) as resumed:
        resumed.load_state_dict(state)
        rest = []
        for datapoint in resumed:
            if len(rest) == 300:
                os.kill(datapoint[1], signal.SIGKILL)
            rest.append(datapoint)
    assert sorted(number for number, _ in [*seen, *rest]) == list(range(3000))


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_workers_that_the_cluster_has_no_room_for_keep_nothing(cluster):
    stream = DataFromGenerator(lambda: iter(range(100)))
    for flow, expected in [(numbers(3000, shuffle=False), range(3000)), (stream, range(100))]:
        with RayRunner(flow, 5) as runner:
            assert list(runner) == list(expected)
            assert list(runner) == list(expected)


@pytest.mark.slow
def test_a_datapoint_that_kills_every_actor(cluster):
    def deadly(number):
        if number == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    lost = r"3 workers on Ray were lost.*datapoints \d to \d of epoch 0"
    with (
        RayRunner(MapData(numbers(8, shuffle=False), deadly), 1) as flow,
        pytest.raises(WorkerDiedError, match=lost),
    ):
        list(flow)


@pytest.mark.slow
def test_streams_errors_and_things_that_cannot_travel(cluster):
    def failing(number):
        if number == 3:
            raise KeyError("three")
        return [number, get_worker_info().number]

    def refuse(number):
        raise RuntimeError("no such device")

    def locked(number):
        with lock:
            return number

    lock = threading.Lock()
    stream = DataFromGenerator(lambda: ([number] for number in range(5000)))
    with RayRunner(stream, 1) as flow:
        assert list(flow) == [[number] for number in range(5000)]
    with RayRunner(MapData(numbers(9, shuffle=False), failing), 1) as flow:
        with pytest.raises(KeyError, match="three") as caught:
            list(flow)
        assert "in the worker" in str(caught.value.__cause__)
    with pytest.raises(RuntimeError, match="no such device"):
        list(RayRunner([1, 2], 1, worker_init_fn=refuse))
    with RayRunner(MapData(numbers(9, shuffle=False), failing), 1, on_error="skip") as flow:
        assert [number for number, _ in flow] == [0, 1, 2, 4, 5, 6, 7, 8]
    with pytest.raises(SendError, match="cannot be sent"):
        list(RayRunner(MapData([1], locked), 1))


@pytest.mark.slow
def test_closing_in_the_middle(cluster):
    flow = RayRunner(numbers(100000), 1)
    datapoints = iter(flow)
    next(datapoints)
    flow.close()
    with pytest.raises(WorkerDiedError, match="ended while it was being read"):
        list(datapoints)
    assert len(list(itertools.islice(flow, 10))) == 10  # new ones
    flow.close()
