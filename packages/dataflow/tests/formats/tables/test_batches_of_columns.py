"""Batches of tables that are gathered column by column equal those of their rows."""

import contextlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import ipc, parquet

from towerpack_dataflow import (
    ArrowData,
    ArrowSerializer,
    BatchData,
    BatchError,
    ChunkShuffle,
    DataFromList,
    MultiProcessRunner,
    ParquetData,
    ParquetSerializer,
    RepeatedData,
    ShardData,
    StorageError,
)
from towerpack_dataflow.runtime._parallel_runner import contiguous
from towerpack_dataflow.runtime.pool._dispatcher import Dispatcher
from towerpack_dataflow.testing import check_dataflow, same

COUNT, GROUP = 23, 5
NUMBERS = np.arange(COUNT)
COLUMNS = {
    "byte": pa.array(NUMBERS, pa.int8()),
    "half": pa.array(NUMBERS.astype(np.float16)),
    "float": pa.array(NUMBERS / 3, pa.float32()),
    "bool": pa.array(NUMBERS % 3 == 0),
    "time": pa.array(NUMBERS.astype("M8[ns]")),
    "pair": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(2 * COUNT, dtype=np.int32)), 2),
}


def written(kind, folder, table):
    path = folder / f"table.{kind}"
    if kind == "parquet":
        parquet.write_table(table, path, row_group_size=GROUP)
    else:
        options = ipc.IpcWriteOptions(compression="zstd" if kind == "compressed" else None)
        with ipc.new_file(path, table.schema, options=options) as file:
            file.write_table(table, max_chunksize=GROUP)
    return path


def opened(path, **options):
    return (ParquetData if path.suffix == ".parquet" else ArrowData)(path, **options)


@pytest.fixture(scope="module", params=["parquet", "arrow", "compressed"])
def path(request, tmp_path_factory):
    return written(request.param, tmp_path_factory.mktemp("tables"), pa.table(COLUMNS))


@given(
    shuffle=st.sampled_from([False, True, ChunkShuffle(2)]),
    size=st.integers(1, COUNT),
    remainder=st.booleans(),
    shard=st.sampled_from([None, (0, 1), (1, 3)]),
    repeats=st.integers(1, 2),
    start=st.integers(0, 3),
    names=st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=6, unique=True),
)
@settings(deadline=None, max_examples=60)
def test_they_equal_batches_of_the_rows(path, shuffle, size, remainder, shard, repeats, start, names):
    def flow(rows):
        made = opened(path, columns=names, shuffle=shuffle)
        if rows:
            made._lst.columns = lambda gather: None
        made = RepeatedData(made, repeats)
        made = ShardData(made, *shard) if shard else made
        assert (made._columns() is None) is rows
        batches = BatchData(made, min(size, len(made)), remainder=remainder)
        batches.seed(4)
        batches.load_state_dict({"seed": 4, "epoch": 1, "index": min(start, len(batches))})
        return batches

    assert same(list(flow(rows=False)), list(flow(rows=True)))


@given(chunks=st.lists(st.integers(1, 9), min_size=1, max_size=6), size=st.integers(1, 9), gap=st.booleans())
@settings(deadline=None, max_examples=40)
def test_columns_of_a_mapped_file_are_elements_of_one_array(tmp_path_factory, chunks, size, gap):
    numbers = np.arange(sum(chunks))
    names = ["byte", "half", "float", "time"]
    values = [numbers.astype(np.int8), numbers.astype(np.float16), numbers / 3, numbers.astype("M8[ns]")]
    last = pa.array([*numbers[:-1].tolist(), None if gap else 7], pa.int64())
    table = pa.table([*map(pa.array, values), last], [*names, "gap"])
    path = tmp_path_factory.mktemp("mapped") / "table.arrow"
    with ipc.new_file(path, table.schema) as file:
        for end, length in zip(np.cumsum(chunks).tolist(), chunks):
            file.write_batch(table.slice(end - length, length).combine_chunks().to_batches()[0])
    flow, same_rows = (BatchData(ArrowData(path, shuffle=True), min(size, len(numbers)), True) for _ in "ab")
    same_rows.ds._lst.columns = lambda gather: None
    found, expected = ([], [])
    for each, batches in ((flow, found), (same_rows, expected)):
        each.seed(1)
        with contextlib.suppress(BatchError):  # of the row without a value
            batches.extend(each)
    assert same(found, expected)
    assert flow.ds._lst._places.suitable or gap


def test_they_keep_the_promises_of_a_flow(path):
    check_dataflow(BatchData(opened(path, shuffle=True), 4))


def test_rows_of_our_serializers(tmp_path):
    rows = [
        {
            "i": number,
            "f": number / 3,
            "b": number % 2 == 0,
            "n": np.uint8(number),
            "t": np.datetime64(number, "s"),
            "be": np.array([number], ">f4")[0],
        }
        for number in range(COUNT)
    ]
    for serializer, name in ((ParquetSerializer, "rows.parquet"), (ArrowSerializer, "rows.arrow")):
        serializer.save(rows, tmp_path / name)
        flow = opened(tmp_path / name)
        assert flow._columns() is not None
        batches = list(BatchData(flow, 6, remainder=True))
        assert same(batches, list(BatchData(DataFromList(rows, shuffle=False), 6, remainder=True)))
        assert batches[0]["i"].dtype == np.int32


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_rows_without_a_value_and_large_integers_are_stacked_one_by_one(tmp_path, kind):
    numbers = [None if number in {3, 4} else float(number) for number in range(COUNT)]
    path = written(kind, tmp_path, pa.table({"x": pa.array(numbers, pa.float32())}))
    batches = iter(BatchData(opened(path), 3))
    assert next(batches)["x"].tolist() == [0, 1, 2]
    with pytest.raises(BatchError, match="NoneType None in component 'x'"):
        next(batches)
    path = tmp_path / f"large.{kind}"
    (ParquetSerializer if kind == "parquet" else ArrowSerializer).save([{"i": 1}, {"i": 2**40}], path)
    with pytest.raises(BatchError, match="1099511627776"):
        list(BatchData(opened(path), 2))


def test_columns_without_a_common_dtype(tmp_path):
    table = pa.table({"text": ["a", "b"], "list": [[1], [1, 2]]})
    path = written("arrow", tmp_path, table)
    assert opened(path)._columns() is None
    assert opened(path, columns=["text"])._columns() is None
    assert next(iter(BatchData(opened(path, columns=["text"]), 2)))["text"].tolist() == ["a", "b"]


def test_chunks_are_read_once(path, monkeypatch):
    flow = opened(path, columns=["byte"], shuffle=ChunkShuffle(2))
    read = []
    valid = type(flow._lst)._as_arrays
    monkeypatch.setattr(
        type(flow._lst), "_as_arrays", lambda self, number: (read.append(number), valid(self, number))[1]
    )
    numbers = [number for batch in BatchData(flow, 4, remainder=True) for number in batch["byte"].tolist()]
    assert sorted(numbers) == list(range(COUNT))
    assert sorted(read) == list(range(5))


@pytest.mark.parametrize(("shuffle", "length"), [(False, 10), (ChunkShuffle(2), 20), (True, 1)])
def test_a_worker_reads_whole_row_groups(tmp_path, monkeypatch, shuffle, length):
    """Batches of 4 groups, or of 4 windows of them, once the size of a batch is known."""
    path = tmp_path / "table.parquet"
    parquet.write_table(pa.table({"x": np.arange(5000)}), path, row_group_size=50)
    flow, same_flow = (BatchData(ParquetData(path, shuffle=shuffle), 20) for _ in "ab")
    ranges, next_range = [], Dispatcher.next_range

    def noted(self, *arguments):
        found = next_range(self, *arguments)
        ranges.append(found or (0, 0))
        return found

    monkeypatch.setattr(Dispatcher, "next_range", noted)
    with MultiProcessRunner(flow, 2) as runner:
        for each in (runner, same_flow):
            each.seed(3)
            each.load_state_dict({**each.state_dict(), "index": 33})
        assert same(list(runner), list(same_flow))
    assert all(end % length == 0 or end in {250, begin + 1} for begin, end in ranges)
    assert contiguous(ShardData(flow, 1, 5), 2) == min(length // 5, 6) or length == 1


def test_a_changed_file_is_noticed(path, tmp_path):
    copy = tmp_path / path.name
    copy.write_bytes(path.read_bytes())
    batches = iter(BatchData(opened(copy), 4))
    next(batches)
    copy.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(StorageError, match="truncated"):
        list(batches)
