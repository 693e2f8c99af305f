"""Parquet and Arrow: values are restored with their types, or rejected; a column has one type."""

import datetime
import os
import struct
import zlib
from decimal import Decimal
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from any_datapoints import difference
from hypothesis import given, settings
from hypothesis import strategies as st

from towerpack_dataflow import (
    ArrowData,
    ArrowSerializer,
    BatchData,
    ChunkShuffle,
    FormatError,
    ParquetData,
    ParquetSerializer,
    SendError,
)
from towerpack_dataflow.testing import same

pytest.importorskip("pyarrow")
import pyarrow as pa
from pyarrow import ipc, parquet

EXAMPLES = int(os.environ.get("TOWERPACK_EXAMPLES", 25))
FORMATS = pytest.mark.parametrize("serializer", [ParquetSerializer, ArrowSerializer])


def save(serializer, rows, path, together=4096):
    """Writes rows, so many of them together."""
    serializer.save(
        rows, path, **{"group_rows" if serializer is ParquetSerializer else "batch_rows": together}
    )


def written_by_others(table, folder, together=3):
    """Writes a table as Parquet and as Arrow, by pyarrow alone; returns a flow over each."""
    parquet.write_table(table, folder / "others.parquet", row_group_size=together)
    with ipc.new_file(str(folder / "others.arrow"), table.schema) as writer:
        writer.write_table(table, together)
    return ParquetData(folder / "others.parquet"), ArrowData(folder / "others.arrow")


@FORMATS
@pytest.mark.parametrize(
    "values",
    [
        [1, None, -(2**63), 2**63 - 1, 2**53 + 1],
        [0.1, -0.0, float("inf"), 5e-324, None],
        [True, None, False],
        ["", None, "None", "a\r", "\0", "\ufeff😀"],
        [b"", None, b"\xff\0"],
        [[1, None, 2**60 + 1], None, []],
        [[[1], []], [None, [2]]],
        [{"x": 1, "y": [None, "a"]}, None, {"x": None, "y": None}],
        [datetime.datetime(2020, 1, 2, 3, 4, 5, 6), None],
        [datetime.datetime(2020, 10, 25, 1, tzinfo=ZoneInfo("Europe/Berlin"))],
        [datetime.date(2020, 1, 2), datetime.date.min],
        [datetime.timedelta(1, 2, 3)],
        [Decimal("1.50"), Decimal("-0.25")],
        [np.int64(2**60 + 1), None, np.int64(-1)],
        [np.uint8(255), np.uint8(0)],
        [np.float16(0.1), None],
        [np.float32(0.1), np.float32("nan")],
        [np.bool_(True), None],
        *[[np.datetime64(-3, unit), None, np.datetime64("NaT", unit)] for unit in "YMWDhms"],
        *[[np.timedelta64(3, unit), np.timedelta64("NaT", unit)] for unit in ("ms", "us", "ns", "25s")],
        [np.array([], "f4"), None, np.array([1, np.nan], "f4")],
        [np.array([1, 2], ">i2"), np.array([3], ">i2")],
        [np.array([True, False, True]), np.array([], bool)],
        [np.array(["2020-01-01", "NaT"], "M8[ns]"), np.array(["1970-01-01"], "M8[ns]")],
        [np.arange(6)[::-2], None],
    ],
    ids=lambda values: str(values)[:40],
)
def test_values_and_types_are_restored(tmp_path, serializer, values):
    rows = [{"a": value, "id": k} for k, value in enumerate(values)]
    for together in (4096, 1):  # rows that are written, and types that are found, at a time
        save(serializer, rows, tmp_path / "file", together)
        flow = serializer.load(tmp_path / "file")
        for found in (list(flow), [flow.datapoint(0, place) for place in range(len(rows))]):
            assert difference(rows, found, "rows") is None


@pytest.mark.slow
@FORMATS
@pytest.mark.parametrize(
    ("before", "late"),
    [
        (1, 1.5),
        (1.5, 1),
        (True, 1),
        (1, True),
        (b"a", "é"),
        ("a", b"a"),
        ([1], [2.7]),
        ([1], [True]),
        ([1], (1,)),
        ({"u": 3}, {"u": 3, "v": 9}),
        ({"u": 3, "v": 9}, {"u": 3}),
        ({"u": 3, "v": 9}, {"v": 9, "u": 3}),
        (datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1, 5)),
        (datetime.datetime(2020, 1, 1), datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)),
        (Decimal("1.5"), Decimal("1.25")),
        (np.zeros(2, "f4"), np.full(2, 0.1)),
        (np.zeros(2, "f4"), [0.0, 1.0]),
        (np.zeros(2, "<i4"), np.zeros(2, ">i4")),
        (np.float32(1), np.float64(0.1)),
        (np.int64(1), 1),
        (np.datetime64(1, "s"), np.datetime64(1, "ms")),
    ],
)
def test_a_late_value_of_another_type_is_refused(tmp_path, serializer, before, late):
    path = tmp_path / "file"
    path.write_bytes(b"before")
    for count, together in ((5, 4096), (4097, 4096)):
        rows = [{"a": before, "id": 0}] * count + [{"a": late, "id": 0}]
        with pytest.raises(SendError, match=rf"datapoint {count}, component 'a': (Parquet|Arrow) "):
            save(serializer, rows, path, together)
    assert path.read_bytes() == b"before" and os.listdir(tmp_path) == ["file"]


@FORMATS
@pytest.mark.parametrize(
    "value",
    [
        2**63,
        10**5000,
        -(2**63) - 1,
        (1, 2),
        {1, 2},
        1j,
        bytearray(b"a"),
        object(),
        "\ud800",
        {"a": (1,)},
        {1: 2},
        [np.float32(1)],
        [np.zeros(2)],
        [1, 2.5],
        np.ma.array([1, -999], mask=[0, 1]),
        np.zeros((2, 2)),
        np.array(1.5),
        np.array(["a"]),
        np.array([1, None], object),
        np.zeros(2, [("x", "i4")]),
        np.complex64(1),
        np.longdouble(1),
        np.str_("a"),
        np.timedelta64(1),
        np.datetime64(2**62, "D"),
        np.datetime64(1, "ps"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_that_would_change_are_rejected(tmp_path, serializer, value):
    with pytest.raises(SendError, match=r"datapoint 1, component 'a': (Parquet|Arrow) "):
        save(serializer, [{"a": None}, {"a": value}], tmp_path / "file")
    with pytest.raises(SendError, match=r"datapoint 0 (must be a dict with a key|has the key)"):
        save(serializer, [{}] if isinstance(value, int) else [{1: value}], tmp_path / "file")
    assert not os.listdir(tmp_path)


@FORMATS
@pytest.mark.parametrize("first", [None, [], [None], {"x": None}, {"x": []}, [[]]])
def test_a_column_may_begin_without_a_type(tmp_path, serializer, first):
    later = {
        "None": np.array([1.5], "f4"),
        "[]": [1, 2],
        "[None]": ["a"],
        "{'x': None}": {"x": 1.5},
        "{'x': []}": {"x": [b"a"]},
        "[[]]": [[{"y": 1}]],
    }[str(first)]
    rows = [{"id": k, "a": first} for k in range(9)] + [{"id": 9, "a": later}, {"id": 10, "a": None}]
    for given_rows in (rows, rows[:9]):
        save(serializer, given_rows, tmp_path / "file", 2)
        assert same(list(serializer.load(tmp_path / "file")), given_rows)


def test_a_list_with_a_null_is_a_masked_array_of_the_same_dtype(tmp_path):
    kinds = [pa.list_(pa.int64()), pa.large_list(pa.int64()), pa.list_(pa.int64(), 2)]
    lists = [[2**60 + 1, None], [1, 2], None, [None, None], [2**53 + 1, 3]]
    table = pa.table({str(place): pa.array(lists, kind) for place, kind in enumerate(kinds)})
    nested = [[[2**60 + 1, None]], [], None, [[1], None], [[]]]
    table = table.append_column("nested", pa.array(nested, pa.list_(pa.list_(pa.int64()))))
    for flow in written_by_others(table, tmp_path):
        for rows in (list(flow), [flow.datapoint(0, place) for place in range(len(lists))]):
            for name in "012":
                arrays = [row[name] for row in rows]
                assert [array if array is None else array.tolist() for array in arrays] == lists
                assert {array.dtype for array in arrays if array is not None} == {np.dtype("i8")}
                assert [np.ma.isMaskedArray(array) for array in arrays] == [True, False, False, True, False]
            assert rows[0]["nested"][0].tolist() == nested[0][0] and rows[3]["nested"][1] is None
            assert rows[4]["nested"][0].dtype == np.int64


TYPED = {
    "i8": pa.array([1, 2**40, 3, 4, 5, 6]),
    "f8": pa.array([1700000001.25, 0.5, 1e300, 0.0, -0.0, 0.1]),
    "u1": pa.array([1, 2, 3, 4, 5, 255], pa.uint8()),
    "f2": pa.array(np.arange(6, dtype="f2")),
    "?": pa.array([True, False] * 3),
}


def test_a_typed_column_has_one_dtype_in_each_row_and_batch(tmp_path):
    table = pa.table(TYPED)
    for flow in written_by_others(table, tmp_path):
        for row in flow:
            assert {name: value.dtype for name, value in row.items()} == {
                name: np.dtype(name) for name in row
            }
        batches = list(BatchData(flow, 2))
        assert all(batch[name].dtype == np.dtype(name) for batch in batches for name in TYPED)
        assert np.concatenate([batch["f8"] for batch in batches]).tolist() == TYPED["f8"].to_pylist()
    flow = ParquetData(tmp_path / "others.parquet", ["u1"], ChunkShuffle(2))
    assert sorted(row["u1"] for row in flow) == [1, 2, 3, 4, 5, 255]


def test_nanoseconds_need_no_other_library(tmp_path):
    times, zone = [1_000_001, None, 10**18], "Europe/Berlin"
    table = pa.table(
        {
            "when": pa.array(times, pa.timestamp("ns")),
            "there": pa.array(times, pa.timestamp("ns", zone)),
            "span": pa.array(times, pa.duration("ns")),
            "day": pa.array([1_000_001, None, 3], pa.time64("ns")),
            "list": pa.array([[1, 2], None, []], pa.list_(pa.timestamp("ns"))),
            "pair": pa.array([{"t": 1_000_001}, None, {"t": None}], pa.struct({"t": pa.timestamp("ns")})),
            "map": pa.array(
                [[("a", 1_000_001)], None, [("b", None)]], pa.map_(pa.string(), pa.timestamp("ns"))
            ),
        }
    )
    for flow in written_by_others(table, tmp_path):
        row, gone = next(iter(flow)), flow.datapoint(0, 1)
        when = np.datetime64(1_000_001, "ns")
        assert row["when"] == row["there"] == row["pair"]["t"] == when and row["when"].dtype == when.dtype
        assert row["span"] == row["day"] == np.timedelta64(1_000_001, "ns")
        assert row["map"] == [("a", when)] and type(row["map"][0][1]) is np.datetime64
        assert same(row["list"], np.array([1, 2], "M8[ns]")) and set(gone.values()) == {None}


@st.composite
def any_columns(draw):
    """Draws an array of a type of Arrow's, a slice of one with nulls."""
    numbers = st.sampled_from([pa.int8(), pa.uint64(), pa.float32(), pa.float64(), pa.bool_(), pa.int64()])
    others = st.sampled_from([pa.string(), pa.binary(), pa.date32(), pa.timestamp("us"), pa.null()])
    kind = draw(
        st.recursive(
            numbers | others,
            lambda inner: (
                inner.map(pa.list_)
                | inner.map(pa.large_list)
                | inner.map(lambda kind: pa.list_(kind, 2))
                | inner.map(lambda kind: pa.map_(pa.string(), kind))
                | st.lists(inner, min_size=1, max_size=2).map(
                    lambda kinds: pa.struct([(f"f{place}", kind) for place, kind in enumerate(kinds)])
                )
            ),
            max_leaves=3,
        )
    )
    count = draw(st.integers(1, 7))
    return pa.array([draw(values_of(kind)) for _ in range(count)], kind)


def values_of(kind):
    """Returns a strategy for the values of a type of Arrow's, and None."""
    if isinstance(kind, pa.StructType):
        return st.none() | st.fixed_dictionaries({field.name: values_of(field.type) for field in kind})
    if pa.types.is_fixed_size_list(kind):
        return st.none() | st.lists(values_of(kind.value_type), min_size=2, max_size=2)
    if pa.types.is_map(kind):
        return st.none() | st.lists(st.tuples(st.text(max_size=2), values_of(kind.item_type)), max_size=3)
    if hasattr(kind, "value_type"):
        return st.none() | st.lists(values_of(kind.value_type), max_size=3)
    width = {pa.int8(): 7, pa.int64(): 63}.get(kind)
    if width:
        return st.none() | st.integers(-(2**width), 2**width - 1)
    return {
        pa.uint64(): st.none() | st.integers(0, 2**64 - 1),
        pa.float32(): st.none() | st.floats(allow_nan=False, width=32),
        pa.float64(): st.none() | st.floats(allow_nan=False),
        pa.bool_(): st.none() | st.booleans(),
        pa.string(): st.none() | st.text(max_size=3),
        pa.binary(): st.none() | st.binary(max_size=3),
        pa.date32(): st.none() | st.dates(),
        pa.timestamp("us"): st.none() | st.datetimes(),
        pa.null(): st.none(),
    }[kind]


def plain(value):
    """Returns a value as `to_pylist` has it."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return type(value)(map(plain, value))
    return {key: plain(part) for key, part in value.items()} if isinstance(value, dict) else value


@pytest.mark.slow
@given(any_columns())
@settings(max_examples=EXAMPLES, deadline=None)
def test_rows_are_those_of_pyarrow(tmp_path_factory, column):
    folder = tmp_path_factory.getbasetemp()
    flows = written_by_others(pa.table({"a": column}), folder, together=2)
    for flow in flows:
        in_order, by_number = list(flow), [flow.datapoint(0, place) for place in range(len(column))]
        assert [plain(row["a"]) for row in in_order] == [plain(row["a"]) for row in by_number]
        assert [plain(row["a"]) for row in in_order] == column.to_pylist()
        assert len({row["a"].dtype for row in in_order if hasattr(row["a"], "dtype")}) <= 1


@FORMATS
def test_a_serializer_writes_types_that_pyarrow_reads(tmp_path, serializer):
    rows = [
        {"i": 1, "f": 0.5, "n": np.uint8(3), "a": np.array([1.5], "f4"), "t": np.datetime64(1, "s"), "s": "x"}
    ]
    serializer.save(rows, tmp_path / "file")
    is_parquet = serializer is ParquetSerializer
    table = (
        parquet.read_table(tmp_path / "file") if is_parquet else ipc.open_file(tmp_path / "file").read_all()
    )
    assert [str(kind) for kind in table.schema.types] == [
        *("int64", "double", "uint8", "list<element: float>" if is_parquet else "list<item: float>"),
        *("timestamp[ms]", "string"),
    ]


def test_a_type_that_another_program_changed_is_the_one_of_the_file(tmp_path):
    ParquetSerializer.save([{"a": np.int32(1), "b": np.arange(2)}], tmp_path / "a.parquet")
    table = parquet.read_table(tmp_path / "a.parquet")
    changed = [
        table.schema.field(0).with_type(pa.float64()),
        table.schema.field(1).with_type(pa.list_(pa.float32())),
    ]
    parquet.write_table(table.cast(pa.schema(changed)), tmp_path / "b.parquet")
    (row,) = ParquetData(tmp_path / "b.parquet")
    assert same(row, {"a": np.float64(1), "b": np.array([0, 1], "f4")})
    strange = table.schema.field(0).with_metadata({"towerpack": "scalar <M8[zz]"})
    for kind in ("scalar <M8[zz]", "scalar |V8", "matrix", "scalar <f4 "):
        strange = table.schema.field(0).with_metadata({"towerpack": kind})
        parquet.write_table(table.select([0]).cast(pa.schema([strange])), tmp_path / "c.parquet")
        with pytest.raises(
            FormatError, match=r"c\.parquet, column 'a' has values of the kind '(scalar|matrix)"
        ):
            ParquetData(tmp_path / "c.parquet")


def test_columns_of_one_name_are_named(tmp_path):
    table = pa.table([[1, 2], [3, 4], ["a", "b"]], names=["x", "x", "text"])
    flows = []
    parquet.write_table(table, tmp_path / "a.parquet")
    with ipc.new_file(str(tmp_path / "a.arrow"), table.schema) as writer:
        writer.write_table(table)
    for make, path in ((ParquetData, tmp_path / "a.parquet"), (ArrowData, tmp_path / "a.arrow")):
        with pytest.raises(FormatError, match=r"a\.\w+ has 2 columns named 'x', but a row can have only one"):
            make(path)
        flows.append(make(path, ["text"]))
    assert [list(flow) for flow in flows] == [[{"text": "a"}, {"text": "b"}]] * 2


@pytest.mark.slow
def test_a_flipped_bit_in_a_page_is_noticed(tmp_path):
    rows = [{"x": k, "text": f"row {k}"} for k in range(200)]
    ParquetSerializer.save(rows, tmp_path / "a.parquet", group_rows=50)
    content = (tmp_path / "a.parquet").read_bytes()
    footer = len(content) - 8 - struct.unpack("<I", content[-8:-4])[0]
    silent = 0
    for place in range(4, footer, max(footer // 150, 1)):
        flipped = bytearray(content)
        flipped[place] ^= 1 << zlib.crc32(b"%d" % place) % 8
        (tmp_path / "bad.parquet").write_bytes(flipped)
        try:
            silent += list(ParquetData(tmp_path / "bad.parquet")) != rows
        except FormatError as error:
            assert "bad.parquet" in str(error)
    assert silent == 0
