"""CSV and JSON Lines: values are restored, or rejected; files are read as by other programs."""

import bz2
import csv
import gzip
import io
import json
import lzma
import os
import pickle

import numpy as np
import pytest
from any_datapoints import difference, few_examples
from hypothesis import given
from hypothesis import strategies as st

from towerpack_dataflow import (
    ArgumentError,
    CSVData,
    CSVSerializer,
    FormatError,
    JSONLData,
    JSONLSerializer,
    MultiProcessRunner,
    SendError,
    StorageError,
    index_csv,
    index_jsonl,
)

TEXTS = [
    "",
    "None",
    "nan",
    "inf",
    "1",
    "-1",
    "1e5",
    "100000.0",
    "007",
    "True",
    " a ",
    "a\r",
    "\r",
    "a\r\nb",
    "\n",
    '"',
    '""',
]
TEXTS += [
    ",",
    "\ufeff",
    "\ufeffa",
    "\0",
    "\x85",
    "\u2028",
    "é😀",
    "-0",
    "1_0",
    "\u0661",
    "x" * 200_000,
    'a"b',
]


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("TOWERPACK_CACHE", str(folder))
    return folder


@pytest.mark.slow
def test_values_with_the_same_text_are_restored_exactly(tmp_path):
    values = [
        *TEXTS,
        1,
        -1,
        2**53 + 1,
        2**64,
        -(10**30),
        0.1,
        1.0,
        -0.0,
        1e300,
        5e-324,
        float("inf"),
        float("nan"),
    ]
    rows = [{"a": value, "b\r": None, "": True} for value in [*values, True, False, None]]
    path = tmp_path / "a.csv"
    CSVSerializer.save(rows, path, list(rows[0]))
    assert difference(rows, list(CSVSerializer.load(path)), "rows") is None
    assert [row["a"] for row in CSVData(path)][: len(TEXTS)] == TEXTS
    index_csv(path)
    assert difference(rows, list(CSVSerializer.load(path)), "rows") is None
    with path.open(newline="", encoding="utf-8") as file:
        limit = csv.field_size_limit(10**6)
        assert [row["a"] for row in csv.DictReader(file)] == [row["a"] for row in CSVData(path)]
        csv.field_size_limit(limit)


@pytest.mark.parametrize(
    "value",
    [
        np.arange(2000),
        b"ab",
        bytearray(b"a"),
        [1],
        (1,),
        {"a": 1},
        1j,
        np.int64(1),
        np.float32(0.1),
        np.str_("a"),
        np.datetime64(1, "ns"),
        "\ud800",
        10**5000,
        object(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_table_rejects_values_that_would_change(tmp_path, value):
    path = tmp_path / "a.csv"
    path.write_text("before")
    with pytest.raises(SendError, match=r"a\.csv, datapoint 1, component 'y': CSV cannot hold "):
        CSVSerializer.save([[1, 2], [3, value]], path, ["x", "y"])
    assert path.read_text() == "before" and os.listdir(tmp_path) == ["a.csv"]


def test_a_table_takes_plain_values_if_asked(tmp_path):
    row = [np.int64(2**60 + 1), np.float32(0.1), np.str_("1"), np.bool_(True), None]
    CSVSerializer.save([row], tmp_path / "a.csv", list("abcde"), plain=True)
    assert list(CSVSerializer.load(tmp_path / "a.csv")) == [
        {"a": 2**60 + 1, "b": float(np.float32(0.1)), "c": "1", "d": True, "e": None}
    ]
    for value in (np.zeros(2), np.datetime64(1, "ns"), np.complex64(1), np.longdouble(1)):
        with pytest.raises(SendError, match="component 'a': CSV cannot hold "):
            CSVSerializer.save([[value]], tmp_path / "b.csv", ["a"], plain=True)


@pytest.mark.parametrize(
    ("rows", "names", "kind", "message"),
    [
        ([["ab"]], [], ArgumentError, "columns is a list of distinct strings"),
        ([["ab"]], ["a", "a"], ArgumentError, "columns is a list of distinct strings"),
        ([["ab"]], [1], ArgumentError, "columns is a list of distinct strings"),
        ([["ab"]], ["\ud800"], ArgumentError, "columns has a name that UTF-8 cannot encode"),
        (["ab"], ["a", "b"], ArgumentError, r"datapoint 0 must have \['a', 'b'\]; received 'ab'"),
        ([5], ["a"], ArgumentError, r"datapoint 0 must have \['a'\]; received 5"),
        ([[None]], ["a"], SendError, "datapoint 0, component 'a': a single None would be a blank line"),
    ],
)
def test_tables_that_no_file_holds(tmp_path, rows, names, kind, message):
    with pytest.raises(kind, match=message):
        CSVSerializer.save(rows, tmp_path / "a.csv", names)
    assert not os.listdir(tmp_path)


@pytest.mark.slow
@few_examples(100)
@given(st.text(st.sampled_from('a,"\r\n ;'), max_size=12), st.sampled_from(",;"))
def test_fields_are_those_of_pythons_csv(tmp_path_factory, text, delimiter):
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_text(f"a{delimiter}b{delimiter}c\n{text}", encoding="utf-8", newline="")
    expected = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    try:
        rows = [list(row.values()) for row in CSVData(path, delimiter=delimiter)]
    except FormatError:  # a row of other than three fields, or of a quote that does not end
        assert (
            any(len(row) not in (0, 3) for row in expected)
            or text.count('"') % 2
            or "\n" in text
            or "\r" in text
        )
        return
    assert rows == [row for row in expected if row]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_blank_lines_marks_and_ends_of_lines_are_those_of_other_programs(tmp_path, monkeypatch, end, mark):
    lines = ["", "", "a,b", "1,2", "", '"x', "", 'y",4', "", "5,6", "", ""]
    (tmp_path / "a.csv").write_text(mark + end.join(lines), encoding="utf-8", newline="")
    expected = [{"a": "1", "b": "2"}, {"a": f"x{end}{end}y", "b": "4"}, {"a": "5", "b": "6"}]
    for block in (2**24, 1, 2, 3, 7):
        monkeypatch.setattr("towerpack_dataflow.formats.text._text_records._BLOCK", block)
        flow = CSVData(tmp_path / "a.csv")
        assert list(flow) == [flow.datapoint(0, place) for place in range(len(flow))] == expected
    assert index_csv(tmp_path / "a.csv") == 3 and list(CSVData(tmp_path / "a.csv")) == expected
    if end == "\r":
        return
    lines = ["", " \t", '{"a": 1}', "", "   ", " [2]", '{"b": "\\r"} ', "", ""]
    (tmp_path / "a.jsonl").write_text(mark + end.join(lines), encoding="utf-8", newline="")
    for block in (2**24, 1, 2, 3, 7):
        monkeypatch.setattr("towerpack_dataflow.formats.text._text_records._BLOCK", block)
        flow = JSONLData(tmp_path / "a.jsonl")
        expected = [{"a": 1}, [2], {"b": "\r"}]
        assert list(flow) == [flow.datapoint(0, place) for place in range(len(flow))] == expected
    assert index_jsonl(tmp_path / "a.jsonl") == 3 and list(JSONLData(tmp_path / "a.jsonl")) == expected


def test_files_of_blank_lines_alone(tmp_path, caplog):
    for content in (b"\n", b"\r\n\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf \n\t"):
        (tmp_path / "a").write_bytes(content)
        assert len(JSONLData(tmp_path / "a")) == 0 == index_jsonl(tmp_path / "a")
        assert list(JSONLData(tmp_path / "a")) == [] and not caplog.text
        (tmp_path / "a.index").unlink()
    (tmp_path / "b").write_bytes(b"\n\n")
    with pytest.raises(FormatError, match="its first line must have a name for each column"):
        CSVData(tmp_path / "b")


@pytest.mark.parametrize(
    "encoding", ["latin-1", "cp1252", "utf-16", "utf-8-sig", "utf-32", "shift_jis", "utf-16-le"]
)
def test_text_in_another_encoding_is_read(tmp_path, encoding):
    word = "ÿé" if encoding != "shift_jis" else "表ソ"
    (tmp_path / "a.csv").write_text(f"{word},b\n1,{word}\n\n2,c\n", encoding=encoding)
    flow = CSVData(tmp_path / "a.csv", encoding=encoding)
    assert list(flow) == [{word: "1", "b": word}, {word: "2", "b": "c"}] and flow.datapoint(0, 1)[word] == "2"
    assert pickle.loads(pickle.dumps(flow)).datapoint(0, 0)["b"] == word
    (tmp_path / "a.jsonl").write_text(
        json.dumps({"a": word}, ensure_ascii=False) + "\n[1]\n", encoding=encoding
    )
    assert list(JSONLData(tmp_path / "a.jsonl", encoding=encoding)) == [{"a": word}, [1]]
    for index, name in ((index_csv, "a.csv"), (index_jsonl, "a.jsonl")):
        if "utf-16" in encoding or "utf-32" in encoding:
            with pytest.raises(ArgumentError, match="an index of it would be useless"):
                index(tmp_path / name, encoding=encoding)
        else:
            assert index(tmp_path / name, encoding=encoding) == 2
    assert list(CSVData(tmp_path / "a.csv", encoding=encoding)) == list(flow)


def test_unknown_encodings(tmp_path):
    (tmp_path / "a").write_text("a\n1\n")
    for encoding in ("utf-9", "hex", "rot13", None):
        for make in (CSVData, JSONLData, lambda path, encoding: index_csv(path, encoding)):
            with pytest.raises(ArgumentError, match="encoding is a text encoding of Python"):
                make(tmp_path / "a", encoding=encoding)
    (tmp_path / "a").write_bytes(b"a\n\xff\n")
    with pytest.raises(FormatError, match=r"a is not in utf-16"):
        CSVData(tmp_path / "a", encoding="utf-16")
    with pytest.raises(FormatError, match=r"a, record 0, at byte 2: 'ascii' codec"):
        list(CSVData(tmp_path / "a", encoding="ascii"))


@pytest.mark.slow
@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_compressed_tables_are_read(tmp_path, cache, monkeypatch, compress):
    rows = [{"a": str(number), "b": "x" * 9} for number in range(1000)]
    text = "a,b\n" + "".join(f"{row['a']},{row['b']}\n" for row in rows)
    half = text.encode()[: len(text) // 2]
    (tmp_path / "a.csv.z").write_bytes(compress(half) + compress(text.encode()[len(half) :]))
    flow = CSVData(tmp_path / "a.csv.z")
    assert len(flow) == 1000 and list(flow) == rows and flow.datapoint(0, 7) == rows[7]
    flow.load_state_dict(flow.state_at(990))
    assert list(flow) == rows[990:]
    (copy,) = (path for path in cache.rglob("*") if path.name == "a.csv.z")
    copy.unlink()  # as a cache that is full does
    assert list(pickle.loads(pickle.dumps(flow))) == rows
    with pytest.raises(ArgumentError, match="an index of it would be useless"):
        index_csv(tmp_path / "a.csv.z")
    (tmp_path / "b.csv.z").write_bytes(compress(text.encode())[:-20])
    with pytest.raises(FormatError, match=r"b\.csv\.z: its compressed bytes are truncated or damaged"):
        CSVData(tmp_path / "b.csv.z")
    (tmp_path / "c.jsonl.z").write_bytes(compress("[1]\n\n[2]".encode("utf-16")))
    assert list(JSONLData(tmp_path / "c.jsonl.z", encoding="utf-16")) == [[1], [2]]


def test_a_copy_is_within_the_budget_of_the_cache(tmp_path, monkeypatch):
    monkeypatch.setattr("towerpack_dataflow.storage.UrlCache.__init__.__defaults__", (None, 1000))
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b"[1]\n" * 1000))
    with pytest.raises(StorageError, match=r"a\.jsonl\.gz has \d+ bytes, and the limit of the cache in"):
        JSONLData(tmp_path / "a.jsonl.gz")


@pytest.mark.slow
def test_long_fields_and_compressed_files_in_workers(tmp_path):
    rows = [{"a": "x" * 200_000, "b": number} for number in range(4)]
    CSVSerializer.save(rows, tmp_path / "a.csv", ["a", "b"])
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress((tmp_path / "a.csv").read_bytes()))
    for path in ("a.csv", "a.csv.gz"):
        assert list(MultiProcessRunner(CSVSerializer.load(tmp_path / path), 2, start_method="spawn")) == rows


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.slow
@few_examples(50)
@given(
    st.lists(st.lists(JSON, max_size=3) | st.dictionaries(st.text(max_size=3), JSON, max_size=3), max_size=3)
)
def test_lines_are_those_of_pythons_json(tmp_path_factory, rows):
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    JSONLSerializer.save(rows, path)
    assert difference(rows, list(JSONLData(path)), "rows") is None
    with path.open(encoding="utf-8", newline="\n") as file:
        assert difference(rows, [json.loads(line) for line in file], "rows") is None


@pytest.mark.parametrize(
    "value",
    [
        (1, 2),
        {1: 2},
        {"a": {None: 1}},
        b"a",
        float("nan"),
        float("-inf"),
        "\ud800",
        "\ud83d\ude00",
        10**5000,
        np.int64(1),
        np.float32(0.5),
        np.arange(2),
        np.datetime64(1, "ns"),
        np.array([1, 2], "M8[ns]"),
        np.ma.array([1, 2], mask=[0, 1]),
        {1, 2},
        object(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_lines_reject_values_that_would_change(tmp_path, value):
    path = tmp_path / "a.jsonl"
    path.write_text("before")
    for row, name in (([0, value], "1"), ({"x": 0, "y": [value]}, "'y'")):
        with pytest.raises(SendError, match=rf"datapoint 1: JSON cannot hold it: component {name}, "):
            JSONLSerializer.save([[1], row], path)
    for datapoint in ((1, 2), 5, "a", None, {1: 2}):
        with pytest.raises(SendError, match="datapoint 0: JSON cannot hold it: "):
            JSONLSerializer.save([datapoint], path)
    assert path.read_text() == "before" and os.listdir(tmp_path) == ["a.jsonl"]


def test_lines_take_plain_values_if_asked(tmp_path):
    row = {
        "a": np.arange(4, dtype=">u2").reshape(2, 2),
        "b": (np.float16(0.5), [np.str_("x")]),
        "c": np.zeros((0,)),
    }
    JSONLSerializer.save([row, (1, 2)], tmp_path / "a", plain=True)
    assert list(JSONLData(tmp_path / "a")) == [{"a": [[0, 1], [2, 3]], "b": [0.5, ["x"]], "c": []}, [1, 2]]
    for value in (
        np.datetime64(1, "ns"),
        np.array([np.nan]),
        np.ma.array([1], mask=[1]),
        np.array([b"a"]),
        {1: 2},
    ):
        with pytest.raises(SendError, match="datapoint 0: JSON cannot hold it: component 0, "):
            JSONLSerializer.save([[value]], tmp_path / "a", plain=True)


@pytest.mark.slow
def test_deep_and_endless_lists_are_refused(tmp_path):
    endless, deep = [], []
    endless.append(endless)
    for _ in range(100_000):
        deep = [deep]
    for value in (endless, deep):
        with pytest.raises(SendError, match="datapoint 0: JSON cannot hold it"):
            JSONLSerializer.save([[value]], tmp_path / "a")
    assert not os.listdir(tmp_path)


@pytest.mark.slow
def test_an_index_hands_out_no_part_of_a_row(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    path = tmp_path / "a.csv"
    path.write_text("a,b\n" + "1,2\n" * 2000)
    index_csv(path)
    store = fsspec.filesystem("memory")
    store.pipe("/a.csv.index", path.with_name("a.csv.index").read_bytes())
    store.pipe("/a.csv", path.read_bytes().replace(b"1,2\n1,2\n", b"123,45\n\n", 1))  # of the same size
    flow = CSVData("memory://a.csv")
    assert flow.datapoint(0, 5) == {"a": "1", "b": "2"}
    for record in (0, 1):
        with pytest.raises(FormatError, match=r"record \d, at byte \d+: it does not (begin|end) with a line"):
            flow.datapoint(0, record)
