"""Arrays held by a consumer never change, for any duration and in any form."""

import gc
import random
import sys
from itertools import islice
from time import perf_counter

import cloudpickle
import numpy as np
import pytest
from resources import open_files

from towerpack_dataflow import BatchData, DataFromList, MapData, MultiProcessMapData, MultiProcessRunner
from towerpack_dataflow.testing import check_dataflow

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers need not import pytest
pytestmark = pytest.mark.slow


def filled(size):
    def func(dp):
        return [np.full((size, 8), dp[0] % 251, np.uint8), dp[0]]

    return func


def numbers(count):
    return DataFromList([[number] for number in range(count)], shuffle=False)


def flow_of(kind, count, size=4000):
    if kind == "in place":
        batches = BatchData(MapData(numbers(count * 4), filled(size)), 4)
        return MultiProcessRunner(MapData(batches, lambda dp: dp), 2, start_method="spawn")
    if kind == "batched":
        return MultiProcessRunner(
            BatchData(MapData(numbers(count * 4), filled(size)), 4), 2, start_method="spawn"
        )
    if kind == "mapped":
        return MultiProcessMapData(MapData(numbers(count), filled(size)), 2, list, start_method="spawn")
    return MultiProcessRunner(MapData(numbers(count), filled(size)), 2, start_method="spawn")


DERIVED = [
    lambda a: a,
    lambda a: a[1:],
    lambda a: a.T[2:5],
    lambda a: a.reshape(-1)[::3],
    lambda a: a.view(np.uint64),
    lambda a: np.ndarray.__getitem__(a, 0)[None],
    lambda a: memoryview(a),
    lambda a: np.broadcast_to(a[:1], a.shape),
    lambda a: a.astype(np.uint8, copy=False).swapaxes(0, 1),
    lambda a: np.split(a, 2)[1],
]


@pytest.mark.parametrize("kind", ["plain", "batched", "in place", "mapped"])
def test_views_in_any_form_never_change(kind):
    draw = random.Random(1)
    held = []
    for image, label in flow_of(kind, 300):
        image[0].fill(77)  # writable, and nobody else's
        view = draw.choice(DERIVED)(image)
        held.append((view, bytes(view), label))
        if len(held) > 20:
            held.pop(draw.randrange(len(held)))
        if draw.random() < 0.1:
            gc.collect()
        some = draw.choice(held)
        assert bytes(some[0]) == some[1]
    assert all(bytes(view) == content for view, content, _ in held)


@pytest.mark.parametrize(
    "kind", ["plain", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("batched", "mapped"))]
)
def test_a_list_of_all_of_a_large_flow(kind):
    flow = flow_of(kind, 500, size=40_000)
    flow._options.prefetch_bytes = 2**23
    everything = list(flow)
    assert len(everything) == 500
    firsts = [int(image.ravel()[0]) for image, _ in everything]
    assert firsts == [int(np.ravel(label)[0]) % 251 for _, label in everything]
    slots = [len(worker.channel._borrowed._slots) for worker in flow._worker_pool._workers]
    assert max(slots) < 60


def test_views_outlive_their_flow():
    flow = flow_of("plain", 4)
    held = [image for image, _ in flow]
    del flow
    gc.collect()
    assert [int(image[0, 0]) for image in held] == [0, 1, 2, 3]


def test_runners_conform():
    flow = BatchData(MapData(numbers(40), filled(500)), 4)
    check_dataflow(MultiProcessRunner(flow, 2, start_method="fork"), positions=3)
    check_dataflow(MultiProcessMapData(numbers(20), 2, filled(500), start_method="fork"), positions=3)


def test_replicas_are_independent_and_still_repeatable():
    def build():
        return MultiProcessRunner(
            MapData(DataFromList(list(range(10))), lambda number: [number]),
            3,
            replicate=True,
            start_method="fork",
        )

    flow = build()
    flow.seed(4)
    passes = [list(flow) for _ in range(3)]
    assert all(len(each) == 10 for each in passes)
    merged = [datapoint[0] for each in passes for datapoint in each]
    assert [sorted(merged[copy::3]) for copy in range(3)] == [list(range(10))] * 3
    assert len({tuple(merged[copy::3]) for copy in range(3)}) == 3
    check_dataflow(build(), positions=3)


@pytest.mark.long
def test_no_growth_over_many_passes_left_early():
    flow = MultiProcessRunner(MultiProcessRunner(MapData(numbers(200), filled(700)), 1), 2)
    draw = random.Random(3)

    def use(times):
        for _ in range(times):
            for image, label in islice(flow, draw.randrange(200)):
                assert image[3, 3] == label % 251

    use(10)
    files, objects = open_files(), len(gc.get_objects())
    use(15)
    assert len(open_files()) <= len(files) + 16
    assert len(gc.get_objects()) <= objects + 3000
    assert len(flow._worker_pool._passes) <= 3


def test_resuming_far_into_a_flow_is_quick():
    flow = MultiProcessRunner(DataFromList(range(10**9)), 1)
    assert next(iter(flow)) is not None
    flow.load_state_dict({"seed": 1, "epoch": 3, "index": 10**8})
    begin = perf_counter()
    next(iter(flow))
    assert perf_counter() - begin < 30  # 10 ms on a quiet machine; by making them again, over a minute
