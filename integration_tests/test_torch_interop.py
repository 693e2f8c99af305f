"""Flows in PyTorch's DataLoader: shared out among ranks and workers, epoch by epoch, resumed anywhere."""

import doctest
import json
import sys
from itertools import islice

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from towerpack_dataflow import ArgumentError, BatchData, DataFromList, FixedSizeData, MapData, StateError
from towerpack_dataflow.interop.torch import TorchDataset

# Three workers on a machine of two cores are no mistake here.
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")

SIZE, BATCH = 40, 4
WORKERS = [0, 1, 3]


def noisy(datapoint, rng):
    return {"number": np.int64(datapoint[0]), "noise": np.float32(rng.random())}


def without_multiples_of_five(datapoint):
    return datapoint if datapoint[0] % 5 else None


def batches(drops=False):
    flow = DataFromList([[number] for number in range(SIZE)])
    if drops:
        flow = MapData(flow, without_multiples_of_five, drops=True)
    flow = BatchData(MapData(flow, noisy, rng=True), BATCH)
    flow.seed(1)
    return flow


def loader(dataset, workers, **options):
    # Fork, because a loader's forkserver takes seconds to start, and nothing else runs in these tests.
    options = (
        {"batch_size": None, "multiprocessing_context": "fork", **options}
        if workers
        else {"batch_size": None}
    )
    return DataLoader(dataset, num_workers=workers, **options)


def pairs(stream):
    return [list(zip(batch["number"].tolist(), batch["noise"].tolist())) for batch in stream]


def expected(epochs, drops=False):
    flow = TorchDataset(batches(drops))
    return [pairs(flow) for _ in range(epochs)]


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("drops", [False, True])
def test_the_same_batches_in_the_same_order_as_tensors(workers, drops):
    dataset = TorchDataset(batches(drops))
    data = loader(dataset, workers, persistent_workers=True)
    first, second = expected(2, drops)
    assert first != second
    assert pairs(data) == first
    assert pairs(islice(data, 2)) == second[:2]
    assert pairs(data) == expected(3, drops)[2]
    if not drops:
        assert len(data) == len(first)
    assert all(isinstance(batch["noise"], torch.Tensor) for batch in data)


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("persistent", [False, True])
def test_epochs_that_are_set(workers, persistent):
    dataset = TorchDataset(batches())
    data = loader(dataset, workers, persistent_workers=persistent)
    passes = expected(3)
    for epoch in (2, 0, 0, 1):
        dataset.set_epoch(epoch)
        assert pairs(data) == passes[epoch]


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("before", [1, 2])
@pytest.mark.parametrize("drops", [False, True])
def test_resumed_with_another_number_of_workers(workers, before, drops):
    passes = expected(3, drops)
    dataset = TorchDataset(batches(drops))
    dataset.set_epoch(1)
    taken = pairs(islice(loader(dataset, before), 5))
    state = json.loads(json.dumps(dataset.state_dict(taken=5)))
    resumed = TorchDataset(batches(drops))
    resumed.load_state_dict(state)
    data = loader(resumed, workers, persistent_workers=True)
    for epoch in (1, 2):
        resumed.set_epoch(epoch)
        taken += pairs(data)
    assert taken == passes[1] + passes[2]


def test_resumed_in_persistent_workers_that_go_on_by_themselves():
    resumed = TorchDataset(batches())
    resumed.load_state_dict({**resumed.state_dict(), "epoch": 1, "index": 8})
    data = loader(resumed, 3, persistent_workers=True)
    passes = expected(3)
    assert [pairs(data), pairs(data)] == [passes[1][8:], passes[2]]


def test_resumed_without_workers():
    dataset = TorchDataset(batches())
    data = iter(loader(dataset, 0))
    taken = pairs(islice(data, 3))
    resumed = TorchDataset(batches())
    resumed.load_state_dict(dataset.state_dict())
    assert taken + pairs(loader(resumed, 2)) == expected(1)[0]


@pytest.mark.parametrize("workers", WORKERS)
def test_ranks_share_out_an_epoch(workers):
    whole = expected(1)[0]
    for rank in range(3):
        dataset = TorchDataset(batches(), rank=rank, world_size=3)
        assert pairs(loader(dataset, workers)) == whole[rank::3]
        assert len(dataset) == len(whole[rank::3])


def test_the_rank_is_that_of_torch_distributed(tmp_path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        assert len(TorchDataset(batches())) == SIZE // BATCH
    finally:
        torch.distributed.destroy_process_group()


def test_a_loader_that_batches_takes_each_datapoint_once():
    flow = DataFromList([[number] for number in range(SIZE)])
    data = DataLoader(TorchDataset(flow), batch_size=3, num_workers=2, multiprocessing_context="fork")
    assert sorted(number for (numbers,) in data for number in numbers.tolist()) == list(range(SIZE))


def test_workers_that_are_sent_the_dataset():
    # Nothing of this module in it: a fresh interpreter would not find it.
    dataset = TorchDataset(FixedSizeData([[number] for number in range(8)], 4))
    data = loader(dataset, 2, multiprocessing_context="spawn", persistent_workers=True)
    assert list(data) == [[0], [1], [2], [3]]
    dataset.set_epoch(3)  # reaches workers that run already
    assert list(data) == [[4], [5], [6], [7]]


def test_the_example_in_the_documentation():
    results = doctest.testmod(sys.modules[TorchDataset.__module__])
    assert results.attempted
    assert not results.failed


def test_errors():
    with pytest.raises(ArgumentError, match="rank=1 and world_size=None: give both, or none"):
        TorchDataset(batches(), rank=1)
    with pytest.raises(ArgumentError, match="epoch is an integer from 0 up; received -1"):
        TorchDataset(batches()).set_epoch(-1)
    dataset = TorchDataset(batches())
    with pytest.raises(
        StateError, match="worker 1 of 2 of a StatefulDataLoader, and it was loaded into no worker"
    ):
        dataset.load_state_dict({**dataset.state_dict(), "worker": [1, 2]})
