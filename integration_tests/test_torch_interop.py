"""Flows in PyTorch's DataLoader: shared out among ranks and workers, epoch by epoch, resumed anywhere."""

import doctest
import json
import os
import subprocess
import sys
import warnings
from itertools import islice

import cloudpickle
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

from towerpack_dataflow import (
    ArgumentError,
    BatchData,
    BatchError,
    DataFlow,
    DataFromArrays,
    DataFromGenerator,
    DataFromList,
    FilterData,
    FixedSizeData,
    MapData,
    MultiProcessRunner,
    StateError,
)
from towerpack_dataflow.interop.torch import TorchDataset

cloudpickle.register_pickle_by_value(sys.modules[__name__])
# Three workers on a machine of two cores are no mistake here.
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")

SIZE, BATCH = 40, 4
WORKERS = [0, 1, 3]
EXAMPLES = settings(max_examples=int(os.environ.get("TOWERPACK_EXAMPLES", 25)), deadline=None)


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


@pytest.mark.parametrize("drops", [False, True])
@given(passes=st.integers(0, 2), taken=st.integers(0, 10), again=st.integers(0, 10), sets=st.booleans())
@EXAMPLES
def test_two_preemptions_without_workers(drops, passes, taken, again, sets):
    wanted = [batch for each in expected(passes + 2, drops)[passes:] for batch in each]
    dataset, seen = TorchDataset(batches(drops)), []
    for _ in range(passes):
        pairs(loader(dataset, 0))
    for count in (taken, again):
        if sets and count == taken:
            dataset.set_epoch(passes)
        got = pairs(islice(loader(dataset, 0), count))
        seen += got
        state = json.loads(json.dumps(dataset.state_dict(taken=len(got))))
        dataset = TorchDataset(batches(drops))
        dataset.load_state_dict(state)
    while len(seen) < len(wanted):
        seen += pairs(loader(dataset, 0))
    assert seen[: len(wanted)] == wanted


def test_a_batching_loader_without_workers_says_how_many_datapoints_were_taken():
    flow = DataFromList([[number] for number in range(SIZE)], shuffle=False)
    dataset = TorchDataset(flow)
    data = DataLoader(dataset, batch_size=BATCH)
    taken = [number for (numbers,) in islice(data, 3) for number in numbers.tolist()]
    resumed = TorchDataset(flow)
    resumed.load_state_dict(dataset.state_dict(taken=len(taken)))
    assert taken + [number for (number,) in resumed] == list(range(SIZE))


@pytest.mark.parametrize("workers", [0, 2])
def test_an_iterator_of_which_nothing_is_taken_uses_up_no_epoch(workers):
    dataset = TorchDataset(batches())
    data = loader(dataset, workers)
    passes = expected(2)
    for epoch in (0, 1):
        dataset.set_epoch(epoch)
        for _ in range(2):
            iter(data)
        assert pairs(data) == passes[epoch]
    dataset = TorchDataset(batches())
    pairs(islice(dataset, 3))
    iter(dataset)
    assert (dataset.state_dict()["epoch"], dataset.state_dict()["index"]) == (1, 0)


def even_numbers(datapoint):
    return datapoint[0] % 2 == 0


def streams():
    flow = DataFromList([[number] for number in range(SIZE)])
    flow.seed(3)
    return {
        "filter": lambda: FilterData(flow, even_numbers),
        "generator": lambda: DataFromGenerator(lambda: ([number] for number in range(9))),
        "map that drops": lambda: batches(drops=True),
        "list": batches,
    }


def plain(data):
    return [repr(datapoint) for datapoint in data]


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("kind", ["filter", "generator", "map that drops", "list"])
@pytest.mark.parametrize("stop", [0, 3, None])
def test_a_stateful_loader_resumes(workers, kind, stop):
    make = streams()[kind]

    def stateful():
        return StatefulDataLoader(
            TorchDataset(make()),
            batch_size=None,
            num_workers=workers,
            multiprocessing_context="fork" if workers else None,
            persistent_workers=workers > 0,
        )

    whole = stateful()
    passes = [plain(whole) for _ in range(3)]
    data = stateful()
    taken = plain(islice(data, stop)) if stop != 0 else []
    state = data.state_dict()
    resumed = stateful()
    resumed.load_state_dict(state)
    rest = [plain(resumed) for _ in range(2)]
    assert taken + rest[0] == (passes[0] if stop is not None else passes[0] + passes[1])
    assert rest[1] == (passes[1] if stop is not None else passes[2])


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
        with pytest.warns(UserWarning, match="3 ranks share 10 datapoints, so some may get one more"):
            dataset = TorchDataset(batches(), rank=rank, world_size=3)
        assert pairs(loader(dataset, workers)) == whole[rank::3]
        assert len(dataset) == len(whole[rank::3])


def test_the_rank_is_that_of_torch_distributed(tmp_path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        assert len(TorchDataset(batches())) == SIZE // BATCH
    finally:
        torch.distributed.destroy_process_group()


def of_rank(flow, rank, ranks, even, start=0):
    dataset = TorchDataset(flow, rank, ranks, even)
    dataset.load_state_dict({**dataset.state_dict(), "index": start})
    return dataset


@pytest.mark.parametrize("addressable", [False, True])
@given(length=st.integers(0, 12), ranks=st.integers(1, 5), start=st.integers(0, 12))
@EXAMPLES
def test_equally_many_datapoints_on_each_rank(addressable, length, ranks, start):
    numbers = [[number] for number in range(length)]
    flow = DataFromList(numbers, shuffle=False) if addressable else DataFromGenerator(lambda: iter(numbers))
    for even, rounds in (("drop", length // ranks), ("repeat", -(-length // ranks))):
        shares = [list(of_rank(flow, rank, ranks, even)) for rank in range(ranks)]
        assert {len(share) for share in shares} == {rounds}
        wanted = [numbers[turn % length] for turn in range(rounds * ranks)]
        assert [datapoint for turn in zip(*shares) for datapoint in turn] == wanted
        start = min(start, rounds)
        for rank in range(ranks):
            assert list(of_rank(flow, rank, ranks, even, start)) == shares[rank][start:]
            if addressable:
                assert len(of_rank(flow, rank, ranks, even)) == rounds


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("even", ["drop", "repeat"])
@pytest.mark.parametrize("drops", [False, True])
def test_even_ranks_with_workers(workers, even, drops):
    shares = [plain(loader(TorchDataset(batches(drops), rank, 3, even), workers)) for rank in range(3)]
    assert shares == [plain(loader(TorchDataset(batches(drops), rank, 3, even), 0)) for rank in range(3)]
    assert len(set(map(len, shares))) == 1


def test_uneven_ranks_are_a_warning():
    flow = DataFromList([[number] for number in range(4)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for ranks, even in ((1, None), (2, None), (4, None), (3, "drop"), (3, "repeat")):
            TorchDataset(flow, 0, ranks, even)
        TorchDataset(FilterData(flow, even_numbers), 0, 1)
    with pytest.warns(UserWarning, match='3 ranks share 4 datapoints.*even="drop" or even="repeat"'):
        TorchDataset(flow, 0, 3)
    with pytest.warns(UserWarning, match="2 ranks share an unknown number of datapoints"):
        TorchDataset(FilterData(flow, even_numbers), 0, 2)


TRAINING = """
import sys
import torch
from torch.utils.data import DataLoader
from towerpack_dataflow import DataFromList
from towerpack_dataflow.interop.torch import TorchDataset

rank, even, store = int(sys.argv[1]), sys.argv[2], sys.argv[3]
torch.distributed.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=2)
network = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
data = DataLoader(TorchDataset(DataFromList([[float(i)] for i in range(11)]), even=even), batch_size=None)
steps = 0
for (number,) in data:
    network(torch.tensor([[number]])).sum().backward()
    steps += 1
print(steps)
torch.distributed.destroy_process_group()
"""


@pytest.mark.parametrize(("even", "steps"), [("drop", "5"), ("repeat", "6")])
def test_two_processes_that_train_together_end_together(tmp_path, even, steps):
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", TRAINING, str(rank), even, str(tmp_path / "store")],
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        assert [process.communicate(timeout=250)[0].strip() for process in processes] == [steps, steps]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_a_flow_is_true_whatever_its_length():
    flow = FilterData(DataFromList([[1]]), even_numbers)
    assert flow
    assert TorchDataset(flow)
    assert TorchDataset([])


class NoSharedMemory:
    def __call__(self, *arguments):
        raise RuntimeError("no shared memory in a file system")


def test_no_file_system_for_shared_memory_is_needed_without_tensors_in_workers(monkeypatch):
    monkeypatch.setattr(torch.UntypedStorage, "share_memory_", NoSharedMemory())
    monkeypatch.setattr(torch.Tensor, "share_memory_", NoSharedMemory())
    dataset = TorchDataset(FixedSizeData([[str(number)] for number in range(8)], 4))
    data = loader(dataset, 2, persistent_workers=True)
    first = list(data)
    dataset.set_epoch(3)  # reaches workers that run already
    assert [first, list(data)] == [[["0"], ["1"], ["2"], ["3"]], [["4"], ["5"], ["6"], ["7"]]]
    assert list(loader(dataset, 0))


def drawn_by_torch(datapoint):
    return [torch.rand(1).numpy()]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_the_generator_of_torch_differs_from_worker_to_worker(method):
    flow = MapData([[number] for number in range(16)], drawn_by_torch)
    torch.manual_seed(0)
    with MultiProcessRunner(flow, 2, start_method=method) as runner:
        assert len({number.item() for (number,) in runner}) == 16


def test_a_generator_of_torch_that_workers_would_copy_is_named(caplog):
    generator = torch.Generator()
    flow = MapData(DataFromList([[1], [2]]), lambda datapoint: [torch.rand(1, generator=generator).numpy()])
    with MultiProcessRunner(flow, 2, start_method="fork") as runner:
        list(runner)
    assert "variable 'generator' of" in caplog.records[0].getMessage()


def test_batches_of_tensors():
    images = torch.arange(48, dtype=torch.uint8).reshape(4, 3, 4)
    dataset = torch.utils.data.TensorDataset(images, torch.arange(4))
    (batch,) = BatchData(dataset, 4)
    assert [part.dtype for part in batch] == [np.uint8, np.int64]
    assert np.array_equal(batch[0], images.numpy())
    (batch,) = BatchData(DataFromArrays([images], shuffle=False), 4)
    assert np.array_equal(batch[0], images.numpy())
    for refused in (torch.zeros(1, requires_grad=True), torch.zeros(1, dtype=torch.bfloat16)):
        with pytest.raises(BatchError, match=r"component 0, which numpy.asarray.. refuses"):
            list(BatchData([[refused]], 1))


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


class Queue(DataFlow):
    live = True

    def __iter__(self):
        yield [1]


def test_errors():
    with pytest.raises(ArgumentError, match="rank=1 and world_size=None: pass both, or neither"):
        TorchDataset(batches(), rank=1)
    with pytest.raises(ArgumentError, match="epoch is an integer from 0 up; received -1"):
        TorchDataset(batches()).set_epoch(-1)
    with pytest.raises(ArgumentError, match="even is 'drop' or 'repeat'; received 'pad'"):
        TorchDataset(batches(), 0, 2, even="pad")
    with pytest.raises(ArgumentError, match=r"live: its datapoints cannot be read again. Use even=.drop."):
        TorchDataset(Queue(), 0, 2, even="repeat")
    dataset = TorchDataset(batches())
    with pytest.raises(
        StateError, match="worker 1 of 2 of a StatefulDataLoader, but it was loaded into no worker"
    ):
        dataset.load_state_dict({**dataset.state_dict(), "worker": [1, 2]})
