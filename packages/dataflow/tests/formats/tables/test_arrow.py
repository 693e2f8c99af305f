"""Arrow IPC files: rows in any order, from mapped, compressed and damaged files."""

import pickle
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from towerpack_dataflow import (
    ArgumentError,
    ArrowData,
    ArrowSerializer,
    ChunkShuffle,
    ComponentError,
    DataFlowError,
    DataFromList,
    FormatError,
    MultiProcessRunner,
    SendError,
)
from towerpack_dataflow.testing import check_dataflow, same

pytest.importorskip("pyarrow")
import pyarrow as pa
from pyarrow import feather, ipc

ROWS = [{"text": f"row {number}", "x": number / 2, "array": np.arange(number % 3)} for number in range(50)]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("arrow") / "data.arrow"
    ArrowSerializer.save(DataFromList(ROWS, shuffle=False), path, batch_rows=8)
    return path


@pytest.fixture(scope="module")
def compressed(path):
    target = path.with_name("data.feather")
    feather.write_feather(feather.read_table(path), target, compression="zstd", chunksize=7)
    return target


def test_a_saved_flow_is_loaded(path, compressed):
    for each in (path, compressed):
        flow = ArrowSerializer.load(each)
        assert same(list(flow), ROWS) and same([flow.datapoint(0, index) for index in range(50)], ROWS)
    reader = ipc.open_file(path)
    assert reader.num_record_batches == 7 and reader.schema.metadata[b"towerpack"] == b"1"


def test_columns_come_in_the_order_that_is_asked_for(path, compressed):
    for each in (path, compressed):
        flow = ArrowData(each, ["x", "text"])
        assert (
            list(list(flow)[3].items())
            == list(flow.datapoint(0, 3).items())
            == [("x", 1.5), ("text", "row 3")]
        )


@pytest.mark.slow
def test_it_keeps_the_promises_of_a_flow(path, compressed):
    for shuffle in (False, True, ChunkShuffle(2)):
        check_dataflow(ArrowData(path, ["x", "array"], shuffle), positions=3)
    check_dataflow(ArrowData(compressed, ["text"], ChunkShuffle(2)), positions=3)
    flow = MultiProcessRunner(ArrowData(path, ["x"]), 2, start_method="spawn")
    assert [row["x"] for row in flow] == [row["x"] for row in ROWS]


def test_a_pass_resumes_at_the_next_batch(path, monkeypatch):
    flow = ArrowData(path, ["x"])
    flow.load_state_dict(flow.state_at(42))
    read, first = [], type(flow._lst)._batch
    monkeypatch.setattr(
        type(flow._lst), "_batch", lambda self, file, number: read.append(number) or first(self, file, number)
    )
    assert [row["x"] for row in flow] == [number / 2 for number in range(42, 50)] and read == [5, 6]


def test_values_of_other_types(tmp_path):
    table = pa.table(
        {
            "name": pa.array(["a", None, "b"]).dictionary_encode(),
            "fixed": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int8(), 2)),
            "words": [["a"], [], None],
            "pair": [{"x": 1}, {"x": 2}, None],
        }
    )
    with ipc.new_file(str(tmp_path / "a.arrow"), table.schema) as writer:
        writer.write_table(table)
    rows = [
        {"name": "a", "fixed": np.array([1, 2], np.int8), "words": ["a"], "pair": {"x": 1}},
        {"name": None, "fixed": None, "words": [], "pair": {"x": 2}},
        {"name": "b", "fixed": np.array([3, 4], np.int8), "words": None, "pair": None},
    ]
    flow = ArrowData(tmp_path / "a.arrow")
    assert same(list(flow), rows) and same([flow.datapoint(0, index) for index in range(3)], rows)


def test_rows_of_a_file_elsewhere(path, compressed):
    fsspec = pytest.importorskip("fsspec")
    for each in (path, compressed):
        fsspec.filesystem("memory").pipe("rows.arrow", each.read_bytes())
        flow = ArrowData("memory://rows.arrow", ["x"])
        assert [row["x"] for row in flow] == [row["x"] for row in ROWS] and flow.datapoint(0, 30) == {
            "x": 15.0
        }


@pytest.mark.parametrize("count", [0, 1, 8, 9])
def test_any_number_of_columns(tmp_path, count):
    rows = [{f"column {place}": place * number for place in range(9)} for number in range(3)]
    ArrowSerializer.save(rows, tmp_path / "a")
    wanted = [f"column {place}" for place in reversed(range(count))]
    expected = [{name: row[name] for name in wanted} for row in rows]
    flow = ArrowData(tmp_path / "a", wanted)
    assert list(flow) == [flow.datapoint(0, index) for index in range(3)] == expected


def test_a_file_without_rows(tmp_path):
    with ipc.new_file(str(tmp_path / "a.arrow"), pa.schema({"x": pa.int64()})):
        pass
    assert len(ArrowData(tmp_path / "a.arrow")) == 0 == len(list(ArrowData(tmp_path / "a.arrow")))


@given(st.data())
@settings(max_examples=60)
def test_a_damaged_file_is_an_error_or_other_values(path, compressed, data):
    content = bytearray(data.draw(st.sampled_from([path, compressed])).read_bytes())
    for _ in range(data.draw(st.integers(0, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    del content[data.draw(st.integers(0, len(content)) | st.just(len(content))) :]
    bad = path.with_name("bad.arrow")
    bad.write_bytes(content)
    try:
        flow = ArrowData(bad)
        list(flow)
        [flow.datapoint(0, index) for index in range(0, len(flow), 9)]
    except DataFlowError as error:
        assert "bad.arrow" in str(error)


def test_another_file_is_named(tmp_path, path):
    for content in (b"", b"ARROW1", b"something else" * 10):
        (tmp_path / "bad").write_bytes(content)
        with pytest.raises(FormatError, match="bad is not an Arrow IPC file, or is truncated or damaged"):
            ArrowData(tmp_path / "bad")
    (tmp_path / "bad").write_bytes(b"FEA1" + bytes(100))
    with pytest.raises(FormatError, match=r"bad is Feather version 1, .* rewrite it"):
        ArrowData(tmp_path / "bad")
    table = pa.table({"text": ["some text"]})
    with ipc.new_stream(str(tmp_path / "bad"), table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(FormatError, match="bad is an Arrow stream, without an index; rewrite it"):
        ArrowData(tmp_path / "bad")
    with pytest.raises(FileNotFoundError):
        ArrowData(tmp_path / "none")


def test_values_that_lead_astray_are_found_before_they_are_followed(tmp_path):
    ArrowSerializer.save([{"text": "some text"}], tmp_path / "data.arrow")
    content = (tmp_path / "data.arrow").read_bytes()
    assert b"some text" in content
    (tmp_path / "data.arrow").write_bytes(content.replace(b"some text", b"some \xffext"))
    for read in (list, lambda flow: flow.datapoint(0, 0)):
        with pytest.raises(FormatError, match=r"data\.arrow, record batch 0, cannot be read: .*UTF8"):
            read(ArrowData(tmp_path / "data.arrow"))


def test_a_replaced_file_is_noticed(tmp_path):
    ArrowSerializer.save(ROWS[:3], tmp_path / "a")
    copy = pickle.loads(pickle.dumps(ArrowData(tmp_path / "a")))
    ArrowSerializer.save(ROWS[:2], tmp_path / "a")
    with pytest.raises(FormatError, match="a: the file was replaced or changed"):
        list(copy)


def test_wrong_arguments_are_refused(path, tmp_path):
    for make, kind, message in [
        (lambda: ArrowData(path, ["z"]), ComponentError, "has no column 'z'; it has text, x, array"),
        (lambda: ArrowData(path, keep_batches=0), ArgumentError, "keep_batches is an integer from 1 up"),
        (lambda: ArrowSerializer.save([], tmp_path / "a"), ArgumentError, "Arrow needs a datapoint"),
        (lambda: ArrowSerializer.save(ROWS, tmp_path / "a", 0), ArgumentError, "batch_rows is an integer"),
        (
            lambda: ArrowSerializer.save([{"a": object()}], tmp_path / "a"),
            SendError,
            "Arrow cannot hold",
        ),
    ]:
        with pytest.raises(kind, match=message):
            make()
    assert not list(tmp_path.iterdir())


def test_without_pyarrow_the_extra_is_named(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"towerpack-dataflow\[parquet\]"):
        ArrowData(path)
