"""`interop.torch.DataLoader`: tensors without copies, the same batches for all ranks, resumed anywhere."""

import doctest
import gc
import json
import logging
import os
import random
import re
import signal
import subprocess
import sys
import warnings
from collections import namedtuple
from itertools import islice
from pathlib import Path

import cloudpickle
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from towerpack_dataflow import (
    ArgumentError,
    BatchData,
    BatchError,
    ComponentError,
    DataFlow,
    DataFromArrays,
    DataFromGenerator,
    DataFromIterable,
    DataFromList,
    DatapointTimeoutError,
    FilterData,
    MapData,
    MultiProcessRunner,
    ShardData,
    StateError,
    UnknownLengthError,
    WorkerDiedError,
)
from towerpack_dataflow.interop import collate, transforms
from towerpack_dataflow.interop.torch import DataLoader
from towerpack_dataflow.interop.transforms import seeded
from towerpack_dataflow.testing import same

cloudpickle.register_pickle_by_value(sys.modules[__name__])

SIZE, BATCH = 48, 4
EXAMPLES = settings(max_examples=int(os.environ.get("TOWERPACK_EXAMPLES", 25)), deadline=None)
Pair = namedtuple("Pair", "image label")


def noisy(datapoint, rng):
    return {"number": np.int64(datapoint[0]), "noise": np.float32(rng.random())}


def without_multiples_of_five(datapoint):
    return datapoint if datapoint[0] % 5 else None


def batches(drops=False, size=SIZE):
    flow = DataFromList([[number] for number in range(size)])
    if drops:
        flow = MapData(flow, without_multiples_of_five, drops=True)
    return BatchData(MapData(flow, noisy, rng=True), BATCH)


def pairs(stream):
    return [list(zip(batch["number"].tolist(), batch["noise"].tolist())) for batch in stream]


def flat(seen):
    return sorted(number for batch in seen for number, _ in batch)


def forked(flow, workers=2, **options):
    return DataLoader(flow, num_workers=workers, start_method="fork" if workers else None, **options)


# ---- order, lengths and states


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("drops", [False, True])
def test_the_same_batches_in_the_same_order_for_any_number_of_workers(workers, drops):
    expected = DataLoader(batches(drops), seed=1)
    passes = [pairs(expected) for _ in range(3)]
    assert passes[0] != passes[1]
    with DataLoader(batches(drops), num_workers=workers, seed=1) as loader:
        assert [pairs(loader) for _ in range(3)] == passes
        assert all(isinstance(batch["noise"], torch.Tensor) for batch in loader)
        if drops:
            with pytest.raises(UnknownLengthError):
                len(loader)
        else:
            assert len(loader) == len(passes[0])


def test_no_seed_is_seed_0_and_the_seed_of_the_flow_remains():
    unseeded, seeded_flow = batches(), batches()
    seeded_flow.seed(7)
    assert pairs(DataLoader(unseeded)) == pairs(DataLoader(batches(), seed=0))
    assert pairs(DataLoader(seeded_flow)) == pairs(DataLoader(batches(), seed=7))


def pairs_of(loader):
    return (list(zip(batch["number"].tolist(), batch["noise"].tolist())) for batch in loader)


@pytest.mark.parametrize("even", ["drop", "repeat"])
@pytest.mark.parametrize("drops", [False, True])
@given(before=st.integers(1, 5), after=st.integers(1, 5), steps=st.integers(0, 13), size=st.integers(4, 60))
@EXAMPLES
def test_resumed_with_another_number_of_ranks(even, drops, before, after, steps, size):
    whole = pairs(DataLoader(batches(drops, size), seed=1))
    first = [of_rank(drops, size, rank, before, even) for rank in range(before)]
    begun = [list(islice(pairs_of(loader), steps)) for loader in first]
    rounds = len(whole) // before if even == "drop" else -(-len(whole) // before)
    assert {len(each) for each in begun} == {min(steps, rounds)}
    taken = [batch for turn in zip(*begun) for batch in turn]
    assert taken == (whole * before)[: len(taken)]
    state = json.loads(json.dumps(first[-1].state_dict()))
    left = whole[len(taken) :]
    if steps >= rounds or len(left) < after:  # then the next epoch begins
        return
    second = [of_rank(drops, size, rank, after, even) for rank in range(after)]
    for loader in second:
        loader.load_state_dict(state)
    rests = [pairs(loader) for loader in second]
    assert len(set(map(len, rests))) == 1
    rest = [batch for turn in zip(*rests) for batch in turn]
    if even == "drop":
        assert rest == left[: len(left) // after * after]
    else:
        assert rest[: len(left)] == left
        assert rest[len(left) :] == (whole * after)[: len(rest) - len(left)]
    following = [pairs(loader) for loader in second]
    again = DataLoader(batches(drops, size), seed=1)
    again.set_epoch(1)
    wanted = pairs(again)
    assert [batch for turn in zip(*following) for batch in turn][: len(wanted)] == (
        wanted[: len(following[0]) * after]
    )


def of_rank(drops, size, rank, ranks, even):
    return DataLoader(batches(drops, size), rank=rank, world_size=ranks, even=even, seed=1)


def test_resumed_with_workers_that_run_already():
    expected = DataLoader(batches(), seed=1)
    passes = [pairs(expected), pairs(expected)]
    with forked(batches(), seed=1) as one, forked(batches(), 1, seed=1, rank=0, world_size=1) as two:
        taken = pairs(islice(one, 5))
        pairs(islice(two, 3))
        two.load_state_dict(one.state_dict())
        assert taken + pairs(two) == passes[0]
        assert pairs(two) == passes[1]
    ranks = [forked(batches(), seed=1, rank=rank, world_size=4) for rank in range(4)]
    for loader in ranks:
        next(iter(loader))
        loader.load_state_dict({**one.state_dict(), "epoch": 0, "index": 8})
    assert [batch for turn in zip(*map(pairs, ranks)) for batch in turn] == passes[0][8:]
    assert [batch for turn in zip(*map(pairs, ranks)) for batch in turn] == passes[1]


def test_the_state_is_one_of_the_flow():
    flow = batches()
    flow.seed(5)
    loader = DataLoader(flow, rank=1, world_size=2)
    list(islice(loader, 3))
    plain = batches()
    plain.load_state_dict(loader.state_dict())
    other = batches()
    other.seed(5)
    assert same(list(plain), list(other)[6:])
    resumed = DataLoader(batches(), rank=0, world_size=2)
    state = plain.state_dict()
    resumed.load_state_dict(state)
    assert pairs(resumed) == pairs(other)[::2]


def test_after_the_last_batch_the_next_epoch_begins():
    for make in (batches, lambda: batches(drops=True)):
        expected = DataLoader(make(), seed=1)
        passes = [pairs(expected), pairs(expected)]
        loader = DataLoader(make(), seed=1)
        iterator = iter(loader)
        for _ in passes[0]:
            next(iterator)
        resumed = DataLoader(make(), seed=1)
        resumed.load_state_dict(loader.state_dict())
        assert pairs(resumed) == passes[1]


@pytest.mark.parametrize("workers", [0, 2])
def test_epochs_that_are_set(workers):
    expected = DataLoader(batches(), seed=1)
    passes = [pairs(expected) for _ in range(3)]
    with forked(batches(), workers, seed=1) as loader:
        for epoch in (2, 0, 0, 1):
            loader.set_epoch(epoch)
            assert pairs(loader) == passes[epoch]
        taken = pairs(islice(loader, 2))
        loader.load_state_dict(loader.state_dict())
        loader.set_epoch(2)  # within it
        assert taken + pairs(loader) == passes[2]
        iter(loader)  # nothing is taken, so no epoch is used up
        assert loader.state_dict()["epoch"] == 3
        with pytest.raises(ArgumentError, match="epoch is an integer from 0 up; received -1"):
            loader.set_epoch(-1)


def test_a_state_of_other_data_is_refused_and_changes_nothing():
    loader = DataLoader(batches(), seed=1, rank=0, world_size=3)
    expected = pairs(DataLoader(batches(), seed=1))
    list(islice(loader, 1))
    with pytest.raises(StateError, match="batch_size"):
        loader.load_state_dict(
            {**DataLoader(BatchData(MapData([[1]] * 9, noisy, rng=True), 3)).state_dict(), "index": 3}
        )
    for wrong in (None, {}, {"index": True}, {"seed": 0, "epoch": 0, "index": -1}):
        with pytest.raises(StateError):
            loader.load_state_dict(wrong)
    assert loader.state_dict()["index"] == 3
    loader.load_state_dict(loader.state_dict())
    assert pairs(loader) == expected[3::3]


# ---- ranks


def test_uneven_ranks_are_an_error_by_default():
    with pytest.raises(
        ArgumentError, match=r'5 ranks share 12 datapoints.*even="drop".*last 2.*even="repeat"'
    ):
        DataLoader(batches(), rank=0, world_size=5)
    with pytest.raises(ArgumentError, match="even is 'drop' or 'repeat' or 'error'; received 'no'"):
        DataLoader(batches(), even="no")
    with pytest.raises(ArgumentError, match="pass both, or neither"):
        DataLoader(batches(), rank=1)
    with pytest.raises(ArgumentError, match=r"ShardData.*world_size=1"):
        DataLoader(ShardData([[1], [2]], 0, 2), rank=0, world_size=2)
    stream = DataFromGenerator(lambda: ([number] for number in range(5)))
    loader = DataLoader(stream, rank=0, world_size=2)
    with pytest.raises(ArgumentError, match="2 ranks share 1 datapoints"):
        list(loader)
    loader = DataLoader(batches(), rank=0, world_size=2)
    four = DataLoader(batches(), rank=0, world_size=1)
    list(islice(four, 1))
    with pytest.raises(ArgumentError, match="2 ranks share 11 datapoints"):
        loader.load_state_dict(four.state_dict())


@pytest.mark.parametrize("even", ["drop", "repeat", "error"])
def test_8_ranks_share_each_epoch(even):
    sizes = [SIZE * 8]
    ranks = [
        DataLoader(batches(size=sizes[0]), rank=rank, world_size=8, even=even, seed=2) for rank in range(8)
    ]
    shares = [pairs(loader) for loader in ranks]
    assert {len(share) for share in shares} == {SIZE // BATCH}
    assert flat(batch for share in shares for batch in share) == list(range(sizes[0]))


def test_the_rank_is_that_of_torch_distributed(tmp_path, monkeypatch):
    loader = DataLoader(batches(), even="drop")
    assert len(loader) == 12
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert len(loader) == 3
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        assert len(loader) == 12
        next(iter(loader))
        torch.distributed.destroy_process_group()
        with pytest.raises(ArgumentError, match="began as rank 0 of 1, and this process is now rank 1 of 4"):
            len(loader)
    finally:
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()


TRAINING = """
import sys
import torch
from towerpack_dataflow.interop.torch import DataLoader

numbers, rank = [float(i) for i in range(11)], int(sys.argv[1])
options = {"num_workers": 1, "start_method": "fork"}
loaders = [DataLoader(numbers, 1, even=even, **options) for even in ("drop", "repeat")]
torch.distributed.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
network = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
for loader in loaders:
    steps = 0
    for number in loader:
        network(number[:, None]).sum().backward()
        steps += 1
    print(steps)
torch.distributed.destroy_process_group()
"""


def test_two_processes_that_train_together_end_together(tmp_path):
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", TRAINING, str(rank), str(tmp_path / "store")],
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        assert [process.communicate(timeout=250)[0].split() for process in processes] == [["5", "6"]] * 2
    finally:
        for process in processes:
            process.kill()
            process.communicate()


# ---- tensors


def in_shared_memory(tensor):
    lines = Path("/proc/self/maps").read_text().splitlines()
    spans = [(*(int(part, 16) for part in line.split()[0].split("-")), line) for line in lines]
    return any("memfd" in line for begin, end, line in spans if begin <= tensor.data_ptr() < end)


def large(datapoint):
    number = datapoint[0]
    return Pair(
        np.full((640, 33), number, np.float32), {"deep": [np.full(20_000, number), (np.int8(number), "text")]}
    )


def test_tensors_of_any_nesting_share_the_memory_of_the_workers():
    with forked(MapData([[number] for number in range(20)], large)) as loader:
        for number, pair in enumerate(loader):
            assert type(pair) is Pair
            deep, (small, text) = pair.label["deep"]
            assert in_shared_memory(pair.image)
            assert in_shared_memory(deep)
            assert (pair.image == number).all()
            assert (deep == number).all()
            assert (small.item(), small.dtype, text) == (number, torch.int8, "text")
    with forked(BatchData(DataFromList([[np.full(2**16, n)] for n in range(9)]), 3), 1) as loader:
        assert all(in_shared_memory(image) for (image,) in loader)


KINDS = st.sampled_from(["drop", "keep", "keep a view", "keep a storage", "keep an array"])


@pytest.mark.parametrize("workers", [0, 2])
@given(kinds=st.lists(KINDS, min_size=1, max_size=8), limit=st.sampled_from([1, 2**18, 2**28]))
@settings(max_examples=int(os.environ.get("TOWERPACK_EXAMPLES", 12)), deadline=None)
def test_memory_is_never_overwritten_while_a_tensor_or_a_view_lives(workers, kinds, limit):
    flow = BatchData(
        MapData([[number] for number in range(64)], lambda dp: [np.full((32, 33), dp[0], "float32")]), 2
    )
    kept = []
    with forked(flow, workers, prefetch_bytes=limit) as loader:
        for _ in range(2):
            for number, (image,) in enumerate(loader):
                kind = kinds[number % len(kinds)]
                view = {
                    "drop": lambda image=image: None,
                    "keep": lambda image=image: image,
                    "keep a view": lambda image=image: image[1:, ::3].mT,
                    "keep a storage": lambda image=image: image[1].untyped_storage(),
                    "keep an array": lambda image=image: image.numpy()[1:, 5],
                }[kind]()
                if view is not None:
                    kept.append((2 * number, view))
                del image, view
    del loader
    gc.collect()
    for number, view in kept:
        if isinstance(view, torch.UntypedStorage):
            view = torch.tensor([], dtype=torch.float32).set_(view).reshape(2, 32, 33)[1:] - 1
        values = set(np.unique(np.asarray(view)).tolist())
        assert values <= {number, number + 1}
        assert values


def test_a_consumer_may_write_to_tensors():
    images = [np.full(1000, number, np.float32) for number in range(8)]
    whole = np.stack(images)
    for workers in (0, 2):
        for flow in (
            images,
            BatchData([[image] for image in images], 2),
            [{"image": image} for image in images],
        ):
            with forked(flow, workers) as loader:
                for value in loader:
                    for tensor in (
                        value.values()
                        if isinstance(value, dict)
                        else [value]
                        if torch.is_tensor(value)
                        else value
                    ):
                        tensor.mul_(-1)
    assert np.array_equal(np.stack(images), whole)


def test_memory_that_a_flow_fills_repeatedly():
    def filled():
        memory = np.zeros((300, 10))
        for number in range(6):
            memory[:] = number
            yield [memory]

    for workers in (0, 1):
        with forked(DataFromGenerator(filled), workers) as loader:
            assert [tensor.unique().tolist() for (tensor,) in list(loader)] == [[n] for n in range(6)]


def test_arrays_that_tensors_cannot_share_are_copied_or_refused():
    fixed = np.arange(3)
    fixed.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reverse, swapped, frozen = next(
            iter(DataLoader([[np.arange(3)[::-1], np.arange(3).astype(">i4"), fixed]]))
        )
    assert [each.tolist() for each in (reverse, swapped, frozen)] == [[2, 1, 0], [0, 1, 2], [0, 1, 2]]
    text, objects = next(iter(DataLoader([[np.array(["a"]), np.array([None])]])))
    assert isinstance(text, np.ndarray)
    assert isinstance(objects, np.ndarray)
    with pytest.raises(
        ComponentError, match=r"component 0.when is an array of datetime64.*MapDataComponent"
    ) as caught:
        list(DataLoader([[{"when": np.array(["2020-01-01"], "M8[D]")}]] * 2))
    assert "before datapoint 1 of pass 0" in caught.value.__notes__[-1]
    with pytest.raises(ComponentError, match="component 0 is a masked array"):
        list(DataLoader([[np.ma.masked_equal([1, 2], 2)]]))


@pytest.mark.parametrize("workers", [0, 1])
def test_tensors_of_workers(workers):
    def tensors(number):
        return {
            "image": torch.full((1000, 70), float(number)),
            "half": torch.ones(3, dtype=torch.bfloat16) * number,
        }

    with forked(MapData([1, 2], tensors), workers=workers) as loader:
        for number, item in enumerate(loader, 1):
            assert (item["image"] == number).all()
            assert item["half"].dtype == torch.bfloat16
            assert item["half"].tolist() == [number] * 3
            assert workers == 0 or in_shared_memory(item["image"])


@pytest.fixture
def threads_of_torch():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    torch.ones(10**6).sum()  # starts them
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads_of_torch")
def test_a_fork_of_a_process_in_which_pytorch_has_threads():
    def summed(number):
        return [torch.ones(10**6).sum() * number, torch.get_num_threads()]

    def three_threads(_):
        torch.set_num_threads(3)

    with forked(MapData([1, 2], summed), 1, timeout=60) as loader:
        assert list(loader) == [[1e6, 1], [2e6, 1]]
    counts = MapData([1], lambda _: [torch.get_num_threads()])
    with forked(counts, 1, worker_init_fn=three_threads) as loader:
        assert list(loader) == [[3]]


def test_a_tensor_on_another_device_is_named():
    def elsewhere(number):
        return [number, {"x": torch.ones(1, device="meta") if number == 2 else torch.ones(1)}]

    with (
        forked(MapData(DataFromList(range(4), shuffle=False), elsewhere), workers=1) as loader,
        pytest.raises(
            ComponentError, match=r"component 1.x is a tensor on meta.*x.cpu\(\).*device="
        ) as caught,
    ):
        list(loader)
    assert "datapoint 2" in "".join(caught.value.__notes__)


# ---- batches that the loader makes


class Squares(torch.utils.data.Dataset):
    def __init__(self, size=10):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        if not 0 <= index < self.size:
            raise IndexError(index)
        return torch.full((2,), float(index)), index**2


def test_a_dataset_of_pytorch_is_batched_as_by_its_own_loader():
    theirs = torch.utils.data.DataLoader(Squares(), 4)
    for workers in (0, 2):
        with forked(Squares(), workers, batch_size=4) as ours:
            assert len(ours) == len(theirs)
            for (one, two), (three, four) in zip(ours, theirs, strict=True):
                assert torch.equal(one, three)
                assert torch.equal(two, four)
                assert (one.dtype, two.dtype) == (three.dtype, four.dtype)
    assert len(DataLoader(Squares(), 4, drop_last=True)) == 2
    orders = [
        [n for _, ns in DataLoader(Squares(), 4, shuffle=True, seed=seed) for n in ns.tolist()]
        for seed in (0, 0, 1)
    ]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[2]) == [n**2 for n in range(10)]


def test_nested_and_single_datapoints_are_stacked():
    nested = [
        {"a": [number, (float(number), [np.arange(2) + number])], "b": Pair("x", True)} for number in range(5)
    ]
    batch, rest = DataLoader(nested, 3)
    assert batch["a"][0].tolist() == [0, 1, 2]
    assert batch["a"][0].dtype == torch.int64
    assert batch["a"][1][0].dtype == torch.float32
    assert batch["a"][1][1][0].tolist() == [[0, 1], [1, 2], [2, 3]]
    assert type(batch["b"]) is Pair
    assert batch["b"].image.tolist() == ["x"] * 3
    assert rest["b"].label.tolist() == [True, True]
    assert [each.tolist() for each in DataLoader(list(range(5)), 2)] == [[0, 1], [2, 3], [4]]
    columns = DataFromArrays([list(range(5)), np.arange(5, dtype=np.int16)], shuffle=False)
    numbers, small = next(iter(DataLoader(columns, 2)))
    assert (numbers.dtype, small.dtype) == (torch.int64, torch.int16)
    with pytest.raises(
        BatchError,
        match=r"datapoint 3 of the pass has the structure dict\(a: value, b: value\).*dict\(a: value\)",
    ):
        list(DataLoader([{"a": 1}, {"a": 1}, {"a": 1}, {"a": 1, "b": 2}], 2))
    with pytest.raises(BatchError, match=r"datapoint 1 of the pass has shape \(3,\) in component 'a.0'"):
        list(DataLoader([{"a": [np.ones(2)]}, {"a": [np.ones(3)]}], 2))


def test_large_batches_are_built_in_shared_memory():
    images = torch.utils.data.TensorDataset(torch.arange(60 * 2000.0).reshape(60, 2000), torch.arange(60))
    with forked(images, 1, batch_size=20) as loader:
        for number, (image, label) in enumerate(loader):
            assert in_shared_memory(image)
            assert torch.equal(image, images.tensors[0][20 * number : 20 * number + 20])
            assert label.tolist() == list(range(20 * number, 20 * number + 20))


def test_an_iterable_dataset_is_a_stream():
    class Counting(torch.utils.data.IterableDataset):
        def __len__(self):
            return 7

        def __iter__(self):
            return iter([number] for number in range(7))

    for workers in (0, 2):
        with forked(Counting(), workers, batch_size=2) as loader:
            assert [numbers.tolist() for (numbers,) in loader] == [[0, 1], [2, 3], [4, 5], [6]]
            taken = [numbers.tolist() for (numbers,) in islice(loader, 2)]
            resumed = DataLoader(Counting(), 2)
            resumed.load_state_dict(loader.state_dict())
            assert taken + [numbers.tolist() for (numbers,) in resumed] == [[0, 1], [2, 3], [4, 5], [6]]
    with pytest.raises(ArgumentError, match="shuffle=True: Counting is a stream"):
        DataLoader(Counting(), 2, shuffle=True)


def test_an_iterable_learns_the_epoch():
    class Shuffled:
        def __init__(self):
            self.epoch = None

        def set_epoch(self, epoch):
            self.epoch = epoch

        def __iter__(self):
            return iter([10 * self.epoch + number] for number in range(3))

    with forked(Shuffled(), 1, batch_size=3) as loader:
        assert [[numbers.tolist() for (numbers,) in loader] for _ in range(2)] == [
            [[0, 1, 2]],
            [[10, 11, 12]],
        ]
        loader.set_epoch(5)
        assert [numbers.tolist() for (numbers,) in loader] == [[50, 51, 52]]


def test_collate_makes_the_batch():
    for workers in (0, 1):
        with forked(
            [[1, 2], [3], [4, 5, 6]],
            workers,
            batch_size=2,
            collate=lambda rows: torch.tensor(np.concatenate(rows)),
        ) as loader:
            assert [tensor.tolist() for tensor in loader] == [[1, 2, 3], [4, 5, 6]]
    assert len(DataLoader([[1]] * 5, 2, collate=len, drop_last=True)) == 2
    for words, problem in (({"collate": len}, "collate="), ({"drop_last": True}, "drop_last=")):
        with pytest.raises(ArgumentError, match=f"{problem} needs batch_size="):
            DataLoader([[1]], **words)
    with pytest.raises(ArgumentError, match="a flow determines its own order"):
        DataLoader(batches(), shuffle=True)
    with pytest.raises(TypeError, match="collate is a function of a list of datapoints, or None; received 3"):
        DataLoader([[1]], 1, collate=3)


# ---- random transforms


class Augmented(torch.utils.data.Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, index):
        return np.array([index, random.random(), np.random.random(), torch.rand(1).item()])


def test_random_numbers_of_a_dataset_repeat_for_any_number_of_workers():
    random.seed(1)
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    passes = [list(DataLoader(Augmented(), 4, seed=3)) for _ in range(2)]
    assert (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()) == before
    loader = DataLoader(Augmented(), 4, seed=3)
    first, second = list(loader), list(loader)
    assert all(map(torch.equal, first, passes[0]))
    assert all(map(torch.equal, passes[0], passes[1]))
    assert not torch.equal(first[0], second[0])
    assert not torch.equal(first[0][0, 1:], first[0][1, 1:])
    for workers in (1, 3):
        with forked(Augmented(), workers, batch_size=4, seed=3) as parallel:
            assert all(map(torch.equal, parallel, first))
            assert all(map(torch.equal, parallel, second))


def test_pipelines_with_their_own_generators_are_seeded():
    class Pipeline:
        def __init__(self):
            self.generator = random.Random()

        def set_random_seed(self, seed):
            self.generator.seed(seed)

        def __call__(self, number):
            return [number + self.generator.random()]

    class Holder:
        def __init__(self):
            self.transform = Pipeline()

        def __call__(self, number):
            return self.transform(number)

    pipeline = Pipeline()
    functions = [Pipeline(), Holder(), Holder().__call__, lambda number: pipeline(number)]
    for function in functions:
        flow = [DataLoader(MapData([1, 2, 3], seeded(function), rng=True), seed=1) for _ in range(2)]
        assert list(flow[0]) == list(flow[1]) != list(flow[0])
    with pytest.raises(TypeError, match="seeded takes a function of a datapoint; received int"):
        seeded(3)


def test_a_generator_that_workers_would_copy_is_named(caplog):
    class Own(torch.utils.data.Dataset):
        def __init__(self):
            self.generator = np.random.default_rng(0)

        def __len__(self):
            return 4

        def __getitem__(self, index):
            return self.generator.random(3)

    with caplog.at_level(logging.WARNING, "towerpack_dataflow"), forked(Own(), batch_size=2) as loader:
        list(loader)
    assert "generator" in caplog.records[0].getMessage()


# ---- devices


def test_batches_are_copied_to_a_device_ahead_of_the_consumer():
    # Without a GPU, "meta" is the only other device.
    with forked(batches(), device="meta", seed=1) as loader:
        assert {str(batch["noise"].device) for batch in loader} == {"meta"}
    with pytest.raises(ArgumentError, match=r"device is one of PyTorch.*received 'no'"):
        DataLoader(batches(), device="no")
    assert next(iter(DataLoader(batches(), device="cpu")))["noise"].device.type == "cpu"


@pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without a GPU")
def test_without_a_gpu():
    with pytest.raises(
        ArgumentError, match="device='cuda': this process has no CUDA device; use device=None"
    ):
        DataLoader(batches(), device="cuda")
    with pytest.warns(UserWarning, match="pin_memory=True has no effect"):
        DataLoader(batches(), pin_memory=True)


def halved_picture(datapoint):
    return {"image": np.full((3, 64, 64), datapoint[0], np.uint8), "number": np.int64(datapoint[0])}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="for machines with a GPU")
@pytest.mark.parametrize("pin", [True, False])
@pytest.mark.parametrize("workers", [0, 4])
def test_batches_on_a_gpu_equal_those_on_the_cpu(workers, pin):
    flow = BatchData(MapData(DataFromList([[number] for number in range(96)]), halved_picture), 8)
    options = {"num_workers": workers, "seed": 3}
    on_cpu = list(DataLoader(flow, **options))
    busy = torch.randn(2048, 2048, device="cuda")
    loader, kept, sums = DataLoader(flow, device="cuda", pin_memory=pin, **options), [], []
    for number, batch in enumerate(loader):
        busy = busy @ busy * 1e-3  # the memory of a batch is in use when the consumer drops it
        sums.append(batch["image"].long().sum())
        if number % 2:
            kept.append((batch["image"], batch["image"][:, 0]))
    assert [int(each) for each in sums] == [int(batch["image"].long().sum()) for batch in on_cpu]
    for (image, view), batch in zip(kept, on_cpu[1::2], strict=True):
        assert image.device.type == "cuda"
        assert torch.equal(image.cpu(), batch["image"]) and torch.equal(view.cpu(), batch["image"][:, 0])


class Elsewhere:
    """In place of a GPU: copies that are finished by the consumer."""

    def __init__(self):
        self.started = []

    def start(self, batch):
        self.started.append(batch["number"].tolist())
        return {key: value.clone() for key, value in batch.items()}

    def finish(self, batch):
        return batch


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("drops", [False, True])
def test_states_count_the_batches_of_the_consumer_not_those_read_ahead(workers, drops):
    expected = DataLoader(batches(drops), seed=1)
    passes = [pairs(expected), pairs(expected)]

    def ahead():
        loader = forked(batches(drops), workers, seed=1, device="meta")
        loader._copies = Elsewhere()
        return loader

    for stop in range(len(passes[0]) + 1):
        with ahead() as loader, ahead() as resumed:
            iterator = iter(loader)
            taken = pairs(islice(iterator, stop))
            resumed.load_state_dict(json.loads(json.dumps(loader.state_dict())))
            assert len(loader._copies.started) <= stop + 4
            rest = pairs(resumed)
            if stop < len(passes[0]):
                assert taken + rest == passes[0]
            else:
                assert rest == passes[1]
            del iterator
            assert pairs(loader) == passes[0 if stop == 0 else 1]


def test_an_error_in_the_reading_thread_comes_at_its_place():
    def failing(number):
        if number == 3:
            raise KeyError("three")
        return [np.int64(number)]

    loader = DataLoader(MapData(DataFromList(range(6), shuffle=False), failing), device="meta")
    iterator = iter(loader)
    assert len(list(islice(iterator, 3))) == 3
    with pytest.raises(KeyError, match="three"):
        next(iterator)


# ---- bad data


class Lying(torch.utils.data.Dataset):
    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if index >= 6:
            raise IndexError(f"no item {index}")
        return [index]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_length_that_is_too_large(workers):
    with (
        forked(Lying(8), workers, batch_size=2) as loader,
        pytest.raises(IndexError, match="no item 6") as caught,
    ):
        list(loader)
    assert "datapoint 6" in "".join(caught.value.__notes__) or "datapoint 3" in "".join(
        caught.value.__notes__
    )


@pytest.mark.parametrize("length", [5, 9])
@pytest.mark.parametrize("workers", [0, 1])
def test_a_stream_with_a_wrong_length(workers, length):
    class Stream(torch.utils.data.IterableDataset):
        def __len__(self):
            return length

        def __iter__(self):
            return iter([number] for number in range(7))

    expected = pytest.warns(UserWarning, match=f"a pass had 7 batches, and len.. says {length}")
    with forked(Stream(), workers) as loader, expected:
        list(loader)


def test_a_live_flow_with_a_length_repeats_nothing_after_a_state_is_loaded():
    loader = DataLoader(DataFromIterable([[np.arange(2)]] * 4, live=True))
    batches = iter(loader)
    next(batches)
    loader.load_state_dict(loader.state_dict())
    assert len(list(loader)) == 4  # without a warning about the length


def at_five(datapoint):
    if datapoint[0] == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return datapoint


def failing_at_five(datapoint):
    if datapoint[0] == 5:
        raise ZeroDivisionError("five")
    return datapoint


@pytest.mark.parametrize("workers", [0, 2])
def test_a_worker_that_raises(workers):
    flow = MapData(DataFromList([[number] for number in range(9)], shuffle=False), failing_at_five)
    with forked(flow, workers) as loader:
        iterator = iter(loader)
        assert [each[0] for each in islice(iterator, 5)] == [0, 1, 2, 3, 4]
        with pytest.raises(ZeroDivisionError, match="five") as caught:
            next(iterator)
        assert "datapoint 5" in "".join(caught.value.__notes__)


def test_a_worker_that_dies():
    with (
        forked(MapData(DataFromList([[n] for n in range(9)], shuffle=False), at_five)) as loader,
        pytest.raises(WorkerDiedError, match="was killed by SIGKILL") as raised,
    ):
        list(loader)
    # A task of quick datapoints has several of them.
    first, last = re.search(r"datapoints? (\d)(?: to (\d))?", str(raised.value)).groups()
    assert int(first) <= 5 <= int(last or first)


def stuck_at_five(datapoint):
    if datapoint[0] == 5:
        signal.pause()
    return datapoint


def test_a_worker_that_hangs():
    with (
        forked(
            MapData(DataFromList([[n] for n in range(9)], shuffle=False), stuck_at_five), timeout=0.5
        ) as loader,
        pytest.raises(DatapointTimeoutError, match="5"),
    ):
        list(loader)
    with pytest.raises(ArgumentError, match="timeout=1 needs workers"):
        DataLoader(batches(), timeout=1)


def test_a_live_flow_has_no_position():
    queue = iter([[number] for number in range(6)])
    loader = DataLoader(DataFromIterable(queue, live=True))
    assert [next(iter(loader)), loader.state_dict()] == [[0], {}]
    loader.load_state_dict({})
    loader.set_epoch(4)
    assert next(iter(loader)) == [1]


def test_a_flow_with_workers_of_its_own():
    flow = MultiProcessRunner(batches(), 1, start_method="fork")
    assert pairs(DataLoader(flow, seed=1)) == pairs(DataLoader(batches(), seed=1))
    flow.close()


def test_a_loader_is_true():
    assert DataLoader([])
    assert DataLoader(FilterData([[1]], len))


def test_examples():
    for module in (sys.modules[DataLoader.__module__], transforms, collate):
        assert doctest.testmod(module).failed == 0


def test_subclasses_of_flows():
    class Own(DataFlow):
        def __len__(self):
            return 5

        def datapoint(self, epoch, index):
            return [np.full(3, index) + epoch]

    with forked(Own(), workers=1) as loader:
        assert [tensor.tolist() for (tensor,) in loader] == [[n] * 3 for n in range(5)]
