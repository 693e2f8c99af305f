"""Parquet files: row groups, their order, and damaged files."""

import io
import pickle
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from towerpack_dataflow import (
    ArgumentError,
    ChunkShuffle,
    ComponentError,
    DataFlowError,
    DataFromList,
    FormatError,
    MultiProcessRunner,
    ParquetData,
    ParquetSerializer,
    SendError,
)
from towerpack_dataflow.formats.tables._chunked_rows import ChunkOrder
from towerpack_dataflow.testing import check_dataflow, same

pytest.importorskip("pyarrow")
import pyarrow as pa
from pyarrow import parquet

ROWS = [{"x": number / 2, "text": f"row {number}", "array": np.arange(number % 3)} for number in range(50)]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("parquet") / "data.parquet"
    ParquetSerializer.save(DataFromList(ROWS, shuffle=False), path, group_rows=8)
    return path


def test_a_saved_flow_is_loaded(path):
    assert same(list(ParquetSerializer.load(path)), ROWS)
    file = parquet.ParquetFile(path)
    assert file.num_row_groups == 7 and file.schema_arrow.metadata[b"towerpack"] == b"1"
    assert list(ParquetData(path, ["x"]))[3] == {"x": 1.5} and same(
        ParquetData(path).datapoint(0, 49), ROWS[49]
    )


@pytest.mark.slow
def test_it_keeps_the_promises_of_a_flow(path):
    for shuffle in (False, True, ChunkShuffle(2)):
        check_dataflow(ParquetData(path, ["x", "text"], shuffle), positions=3)
    flow = MultiProcessRunner(ParquetData(path, ["x"]), 2, start_method="spawn")
    assert [row["x"] for row in flow] == [row["x"] for row in ROWS]


def test_chunks_are_read_once_and_mixed(path, monkeypatch):
    flow = ParquetData(path, ["x"], ChunkShuffle(3))
    read, first = [], type(flow._lst)._batches
    monkeypatch.setattr(
        type(flow._lst),
        "_batches",
        lambda self, number, *rows: read.append(number) or first(self, number, *rows),
    )
    one, two = ([int(row["x"] * 2) for row in flow] for _ in range(2))
    assert sorted(one) == sorted(two) == list(range(50)) and one != two
    assert sorted(read[:7]) == list(range(7)) and len(set(read[7:])) == len(read[7:]) <= 7


@given(st.lists(st.integers(0, 9), max_size=9), st.integers(1, 10), st.integers(0, 3))
def test_an_order_of_chunks_is_a_permutation_with_few_chunks_in_use(sizes, window, seed):
    order = ChunkOrder(np.array(sizes, np.int64), window, np.random.default_rng(seed))
    rows = order.index_range(0, sum(sizes))
    assert sorted(rows) == list(range(sum(sizes)))
    again = ChunkOrder(np.array(sizes, np.int64), window, np.random.default_rng(seed))
    assert [again.at(position) for position in reversed(range(len(rows)))] == rows[::-1]
    chunk_of = np.repeat(np.arange(len(sizes)), sizes)
    chunks, finished = [chunk_of[row] for row in rows], set()
    for position, chunk in enumerate(chunks):
        assert chunk not in finished
        if chunk not in chunks[position + 1 :]:
            finished.add(chunk)
        opened = set(chunks[: position + 1]) - finished
        assert len(opened) <= window


@given(st.data())
def test_a_damaged_file_is_an_error_or_other_values(tmp_path_factory, data):
    good = io.BytesIO()
    parquet.write_table(pa.table({"x": [1, 2, 3], "y": ["a", "b", "c"]}), good)
    content = bytearray(good.getvalue())
    del content[data.draw(st.integers(0, len(content))) :]
    path = tmp_path_factory.getbasetemp() / "bad.parquet"
    path.write_bytes(content)
    try:
        list(ParquetData(path))
    except DataFlowError as error:
        assert "bad.parquet" in str(error)


def test_another_file_is_named(tmp_path, path):
    for content in (b"", b"something else" * 10):
        (tmp_path / "bad").write_bytes(content)
        with pytest.raises(FormatError, match="bad is not a Parquet file, or is truncated or damaged"):
            ParquetData(tmp_path / "bad")
    damaged = bytearray(path.read_bytes())
    damaged[10:60] = bytes(50)
    (tmp_path / "bad").write_bytes(damaged)
    with pytest.raises(FormatError, match="bad, row group 0, cannot be read"):
        ParquetData(tmp_path / "bad").datapoint(0, 0)
    with pytest.raises(FileNotFoundError):
        ParquetData(tmp_path / "none")


def test_invalid_text_is_named(tmp_path):
    parquet.write_table(pa.table({"text": ["some text"]}), tmp_path / "data.parquet")
    content = (tmp_path / "data.parquet").read_bytes()
    assert b"some text" in content
    (tmp_path / "data.parquet").write_bytes(content.replace(b"some text", b"some \xffext"))
    with pytest.raises(FormatError, match=r"data\.parquet, row group 0, cannot be read: .*utf-8"):
        list(ParquetData(tmp_path / "data.parquet"))


def test_a_replaced_file_is_noticed(tmp_path):
    ParquetSerializer.save(ROWS[:3], tmp_path / "a")
    copy = pickle.loads(pickle.dumps(ParquetData(tmp_path / "a")))
    ParquetSerializer.save(ROWS[:2], tmp_path / "a")
    with pytest.raises(FormatError, match="a: the file was replaced or changed"):
        list(copy)


def test_wrong_arguments_are_refused(path, tmp_path):
    for make, kind, message in [
        (lambda: ParquetData(path, ["z"]), ComponentError, "has no column 'z'; it has x, text, array"),
        (lambda: ParquetData(path, keep_groups=0), ArgumentError, "keep_groups is an integer from 1 up"),
        (lambda: ChunkShuffle(0), ArgumentError, "window is an integer from 1 up"),
        (lambda: ParquetSerializer.save([], tmp_path / "a"), ArgumentError, "received none"),
        (lambda: ParquetSerializer.save([[1]], tmp_path / "a"), SendError, "datapoint 0 must be a dict"),
        (
            lambda: ParquetSerializer.save([{"a": 1}, {"b": 1}], tmp_path / "a"),
            SendError,
            "datapoint 1 must be",
        ),
        (
            lambda: ParquetSerializer.save([{"a": object()}], tmp_path / "a"),
            SendError,
            "Parquet cannot hold",
        ),
    ]:
        with pytest.raises(kind, match=message):
            make()
    assert not list(tmp_path.iterdir())


def test_without_pyarrow_the_extra_is_named(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"towerpack-dataflow\[parquet\]"):
        ParquetData(path)
