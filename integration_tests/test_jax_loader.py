"""`interop.jax.DataLoader`: JAX arrays in the workers' memory, placed by a sharding, over processes."""

import doctest
import json
import subprocess
import sys
from itertools import islice

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from towerpack_dataflow import (
    ArgumentTypeError,
    BatchData,
    ComponentError,
    DataFromList,
    MapData,
    MultiProcessRunner,
)
from towerpack_dataflow.interop.jax import DataLoader

pytestmark = pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")


def batches(size=48):
    flow = DataFromList([[np.int32(number)] for number in range(size)])
    return BatchData(MapData(flow, lambda datapoint, rng: [*datapoint, rng.random()], rng=True), 4)


def numbers(stream):
    return [[part.tolist() for part in batch] for batch in stream]


def test_the_same_batches_for_any_number_of_workers_resumed_anywhere():
    whole = DataLoader(batches(), seed=1)
    passes = [numbers(whole), numbers(whole)]
    assert passes[0] != passes[1]
    with DataLoader(batches(), num_workers=1, seed=1) as loader:
        assert len(loader) == 12
        taken = numbers(islice(loader, 5))
        resumed = DataLoader(batches())
        resumed.load_state_dict(json.loads(json.dumps(loader.state_dict())))
        assert taken + numbers(resumed) == passes[0]
        assert all(isinstance(part, jax.Array) for batch in resumed for part in batch)
        assert numbers(loader) == passes[1]


@pytest.fixture
def cpu():
    """Skips a test on other devices; at import, JAX would start threads, and warn of forks in other files."""
    if jax.devices()[0].platform != "cpu":
        pytest.skip("for machines without a GPU")


@pytest.mark.usefixtures("cpu")
def test_arrays_share_the_memory_of_the_workers_and_keep_it():
    flow = BatchData(
        MapData([[number] for number in range(40)], lambda dp: [np.full((64, 33), dp[0], "f4")]), 4
    )
    with MultiProcessRunner(flow, 1) as runner, DataLoader(runner, prefetch_bytes=2**20) as loader:
        kept = list(loader)
        shared = 0
        for number, (image,) in enumerate(kept):
            assert np.unique(np.asarray(image)).tolist() == [4 * number + place for place in range(4)]
    with DataLoader(flow, num_workers=1) as loader:
        runner = loader._pipeline.runner
        for batch in runner:
            address = batch[0].ctypes.data
            (image,) = loader._converted(batch)
            shared += image.unsafe_buffer_pointer() == address
    assert shared == 10


def test_nested_values_and_64_bits():
    nested = [{"a": (np.float64(0.5), [np.arange(3)]), "text": "x"}] * 2
    batch = next(iter(DataLoader(nested, 2)))
    assert batch["a"][0].dtype == np.float32
    assert batch["a"][1][0].tolist() == [[0, 1, 2]] * 2
    assert batch["a"][1][0].dtype == np.int32
    assert batch["text"].tolist() == ["x", "x"]
    with pytest.raises(
        ComponentError, match=r"component 1 is an array of int64 with numbers beyond 32 bits.*x64"
    ):
        list(DataLoader([[1, np.array([2**40])]]))
    with pytest.raises(ComponentError, match=r"component 0 is an array of datetime64.*JAX refuses"):
        list(DataLoader([[np.array(["2020-01-01"], "M8[D]")]]))
    with pytest.raises(ComponentError, match="component 0 is a masked array"):
        list(DataLoader([[np.ma.masked_equal([1, 2], 2)]]))


def test_a_sharding_places_the_arrays():
    mesh = jax.make_mesh((1,), ("data",))
    sharding = NamedSharding(mesh, PartitionSpec("data"))
    loader = DataLoader(batches(), sharding=sharding, seed=1)
    seen = list(loader)
    assert all(part.sharding == sharding for batch in seen for part in batch)
    assert numbers(seen) == numbers(DataLoader(batches(), seed=1))
    taken = numbers(islice(loader, 3))
    assert (loader.state_dict()["epoch"], loader.state_dict()["index"]) == (1, 3)
    resumed = DataLoader(batches(), sharding=sharding)
    resumed.load_state_dict(loader.state_dict())
    assert taken + numbers(resumed) == numbers(numbered(1))
    with pytest.raises(
        ArgumentTypeError, match=r"sharding is a jax.sharding.Sharding, or None.*received 'data'"
    ):
        DataLoader(batches(), sharding="data")
    with pytest.raises(ComponentError, match=r"which JAX refuses.*drop_last=True"):
        list(DataLoader([[1, np.float32(1)]], sharding=sharding))


def numbered(epoch):
    loader = DataLoader(batches(), seed=1)
    loader.set_epoch(epoch)
    return loader


PROCESS = """
import json, sys
import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from towerpack_dataflow import BatchData, DataFromList
from towerpack_dataflow.interop.jax import DataLoader

jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(sys.argv[1], num_processes=2, process_id=int(sys.argv[2]))
sharding = NamedSharding(jax.make_mesh((jax.device_count(),), ("data",)), PartitionSpec("data"))
flow = BatchData(DataFromList([[np.int32(number)] for number in range(24)], shuffle=False), 4)
loader = DataLoader(flow, sharding=sharding)
total = jax.jit(lambda x: (x * np.arange(8)).sum())
seen = [[array.shape, int(total(array))] for (array,) in loader]
own = [int(number) for (array,) in loader for number in array.addressable_shards[0].data]
print(json.dumps([seen, own, loader.state_dict()["epoch"]]))
"""


@pytest.mark.usefixtures("cpu")
def test_two_processes_have_the_parts_of_global_arrays(unused_address):
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, unused_address, str(number)], stdout=subprocess.PIPE, text=True
        )
        for number in range(2)
    ]
    try:
        answers = [json.loads(process.communicate(timeout=250)[0].splitlines()[-1]) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    totals = [int(np.arange(8 * step, 8 * step + 8) @ np.arange(8)) for step in range(3)]
    for process, (seen, own, epoch) in enumerate(answers):
        assert seen == [[[8], total] for total in totals]
        assert own == [number for number in range(24) if number // 4 % 2 == process]
        assert epoch == 2


@pytest.fixture
def unused_address():
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


def test_example():
    assert doctest.testmod(sys.modules[DataLoader.__module__]).failed == 0
