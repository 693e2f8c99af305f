"""Any tree of flows, any number of workers, stopped anywhere and resumed: the single-process stream."""

import json
import sys
from itertools import islice

import cloudpickle
import numpy as np
import pytest
from any_datapoints import few_examples
from hypothesis import given
from hypothesis import strategies as st

from towerpack_dataflow import (
    BatchData,
    DataFlow,
    DataFromGenerator,
    DataFromList,
    FixedSizeData,
    MapData,
    MultiProcessMapAndBatchData,
    MultiProcessMapData,
    MultiProcessRunner,
    ProxyDataFlow,
    RepeatedData,
    RNGDataFlow,
)
from towerpack_dataflow.testing import same

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers need not import pytest

MOST = 60


class Uneven(RNGDataFlow):
    def __init__(self, size):
        self.size = size

    def __iter__(self):
        for number in range(self.rng.integers(1, self.size + 1)):
            yield [number, np.full(3, self.rng.integers(100))]


class EveryOther(ProxyDataFlow):
    def __iter__(self):
        yield from islice(self.ds, 0, None, 2)


class Both(DataFlow):
    def __init__(self, one, two):
        self.parts = (one, two)

    def __iter__(self):
        for part in self.parts:
            yield from islice(part, MOST)


def add_noise(dp, rng):
    return [*dp, rng.random()]


def keep_some(dp, rng):
    return dp if rng.random() < 0.7 else None


sizes = st.integers(1, 12)
workers = st.integers(1, 3)
leaves = st.one_of(
    st.builds(
        lambda n, s: DataFromList([[i, np.arange(i)] for i in range(n)], shuffle=s), sizes, st.booleans()
    ),
    st.builds(lambda n: DataFromGenerator(lambda: ([i] for i in range(n))), sizes),
    st.builds(Uneven, sizes),
)


def grown(trees):
    return st.one_of(
        st.builds(lambda ds: MapData(ds, list), trees),
        st.builds(lambda ds: MapData(ds, add_noise, rng=True), trees),
        st.builds(lambda ds: MapData(ds, keep_some, rng=True, drops=True), trees),
        st.builds(lambda ds: MapData(ds, keep_some, rng=True), trees),
        st.builds(
            lambda ds, n: BatchData(MapData(ds, boxed), n, remainder=True, use_list=True), trees, sizes
        ),
        st.builds(lambda ds, n, k: FixedSizeData(full(ds), n, keep_state=k), trees, sizes, st.booleans()),
        st.builds(RepeatedData, trees, st.integers(1, 3)),
        st.builds(lambda ds: RepeatedData(full(ds), -1), trees),
        st.builds(EveryOther, trees),
    )


def boxed(dp):
    """One component: datapoints of different parts of a tree are then batched together."""
    return [dp]


def full(ds):
    return Both(ds, DataFromList([["last"]]))


trees = st.recursive(leaves, grown, max_leaves=2)


def head(flow, size=MOST):
    return list(islice(iter(flow), size))


def close(flow):
    if getattr(flow, "_worker_pool", None) is not None:
        flow._worker_pool.close()
    for child in flow.children():
        close(child)


def check(plain, parallel, data, seed):
    # Forked workers start in no time; the others differ only in how the flow gets there.
    method = data.draw(st.sampled_from(["fork"] * 19 + ["spawn"]), label="start method")
    for runner in {parallel, getattr(parallel, "ds", parallel), getattr(parallel.ds, "ds", parallel)}:
        if hasattr(runner, "_options"):
            runner._options.start_method = method
    pickled = cloudpickle.dumps(parallel)
    plain.seed(seed)
    passes = [head(plain) for _ in range(3)]
    flow = cloudpickle.loads(pickled)
    flow.seed(seed)
    early = data.draw(st.integers(0, 5), label="left early at")
    epoch = data.draw(st.integers(0, 1), label="epoch")
    stop = data.draw(st.integers(0, len(passes[epoch])), label="stopped at")
    for number in range(epoch):
        assert same(head(flow, early), passes[number][:early])
    iterator = iter(flow)
    got = list(islice(iterator, stop))
    state = json.loads(json.dumps(flow.state_dict()))
    resumed = cloudpickle.loads(pickled)
    resumed._num_workers = data.draw(workers, label="workers after resuming")
    resumed.load_state_dict(state)
    assert same(got + head(resumed, MOST - stop), passes[epoch])
    assert same(head(resumed), passes[epoch + 1])
    assert same(got + list(islice(iterator, MOST - stop)), passes[epoch])
    close(flow)
    close(resumed)


@pytest.mark.slow
@few_examples(12)
@given(tree=trees, workers=workers, seed=st.integers(0, 2**64), data=st.data())
def test_a_runner_changes_nothing(tree, workers, seed, data):
    check(cloudpickle.loads(cloudpickle.dumps(tree)), MultiProcessRunner(tree, workers), data, seed)


@pytest.mark.slow
@few_examples(8)
@given(
    tree=trees,
    workers=workers,
    seed=st.integers(0, 2**64),
    func=st.sampled_from([add_noise, keep_some]),
    drops=st.booleans(),
    data=st.data(),
)
def test_a_parallel_map_is_a_map(tree, workers, seed, func, drops, data):
    plain = MapData(cloudpickle.loads(cloudpickle.dumps(tree)), func, rng=True, drops=drops)
    check(plain, MultiProcessMapData(tree, workers, func, rng=True, drops=drops), data, seed)


@pytest.mark.slow
@few_examples(4)
@given(tree=leaves, workers=workers, size=sizes, data=st.data())
def test_map_and_batch_is_a_batch_of_a_map(tree, workers, size, data):
    def narrow(dp, rng):
        return [dp[0], np.full((3, 2), rng.random())]

    copied = cloudpickle.loads(cloudpickle.dumps(tree))
    plain = BatchData(MapData(copied, narrow, rng=True), size, remainder=True)
    parallel = MultiProcessMapAndBatchData(tree, workers, narrow, size, remainder=True, rng=True)
    check(plain, parallel, data, 3)
