"""CSV, JSON Lines, SVMlight: written, read in any order, and damaged."""

import csv
import json
import os
import pickle

import numpy as np
import pytest
from any_datapoints import few_examples
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file

from towerpack_dataflow import (
    ArgumentError,
    ComponentError,
    CSVData,
    CSVSerializer,
    FormatError,
    JSONLData,
    JSONLSerializer,
    SendError,
    SVMLightData,
    index_csv,
    index_jsonl,
)
from towerpack_dataflow.testing import check_dataflow, same

ROWS = [{"text": f"line {number}, with\nends", "label": number} for number in range(20)]
FIELDS = st.text(st.characters(codec="utf-8", exclude_characters="\r\0"))


def read_csv(path):
    return CSVData(path, {"text": str, "label": int})


@pytest.fixture
def jsonl(tmp_path):
    JSONLSerializer.save(ROWS, tmp_path / "data.jsonl")
    return tmp_path / "data.jsonl"


def test_lines_of_json(jsonl):
    assert list(JSONLSerializer.load(jsonl)) == ROWS and JSONLData(jsonl).datapoint(0, 7) == ROWS[7]
    check_dataflow(JSONLData(jsonl, shuffle=True), positions=3)
    assert os.listdir(jsonl.parent) == ["data.jsonl"]


@pytest.mark.parametrize(
    ("save", "load", "index"),
    [
        (JSONLSerializer.save, JSONLData, index_jsonl),
        (lambda rows, path: CSVSerializer.save(rows, path, ["text", "label"]), read_csv, index_csv),
    ],
)
def test_an_index_holds_the_start_of_records(tmp_path, caplog, save, load, index):
    path = tmp_path / "data"
    save(ROWS, path)
    assert index(path) == 20 and sorted(os.listdir(tmp_path)) == ["data", "data.index"]
    assert list(load(path)) == ROWS and load(path).datapoint(0, 19) == ROWS[19] and not caplog.text
    check_dataflow(load(path), positions=3)
    save(ROWS[::-1], path)  # of the same size
    assert list(load(path)) == ROWS[::-1] and f"Rebuild it with {index.__name__}(path)" in caplog.text
    save([], path)
    assert index(path) == 0 and list(load(path)) == []


def test_an_index_is_used_and_not_believed(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    path = tmp_path / "data.jsonl"
    JSONLSerializer.save(ROWS * 20, path)
    index_jsonl(path)
    store = fsspec.filesystem("memory")
    store.pipe("/lines.jsonl", path.read_bytes().replace(b"\n", b" ", 1))  # far from its end
    store.pipe("/lines.jsonl.index", path.with_name("data.jsonl.index").read_bytes())
    flow = JSONLData("memory://lines.jsonl")
    assert flow.datapoint(0, 7) == ROWS[7]
    with pytest.raises(FormatError, match="does not end with a line: the index belongs to another file"):
        list(flow)


@pytest.mark.slow
@few_examples()
@given(data=st.data())
def test_a_damaged_index_is_refused_or_still_right(data, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "indexed.jsonl"
    JSONLSerializer.save(ROWS, path)
    index_jsonl(path)
    index = path.with_name("indexed.jsonl.index")
    raw = bytearray(index.read_bytes())
    for place in data.draw(st.lists(st.integers(0, len(raw) - 1), max_size=3)):
        raw[place] = data.draw(st.integers(0, 255))
    index.write_bytes(raw[: data.draw(st.integers(0, len(raw)))])
    try:
        assert list(JSONLData(path)) == ROWS
    except FormatError as error:
        assert "indexed.jsonl.index: the" in str(error)


def test_arrays_become_lists_if_asked_and_a_last_line_needs_no_end(tmp_path):
    JSONLSerializer.save([(np.arange(2), np.float32(0.5))], tmp_path / "a", plain=True)
    (tmp_path / "a").write_bytes((tmp_path / "a").read_bytes() + b'{"b": 1}')
    assert list(JSONLData(tmp_path / "a")) == [[[0, 1], 0.5], {"b": 1}]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{1", "record 20, at byte .*: the line is not JSON"),
        (b"5", "neither a JSON object nor a JSON array"),
        (b"\xff", "can't decode byte 0xff"),
        (b'{"a": {"b": 1, "b": 2}}', "an object has two values named 'b'"),
        (b"[1]\r[2]\r", "the line is not JSON: Extra data.*; its lines end with a return"),
        (b"[" * 100_000, "the line is not JSON"),
    ],
)
def test_a_line_that_is_no_json_is_named(jsonl, line, message):
    jsonl.write_bytes(jsonl.read_bytes() + line + b"\n")
    with pytest.raises(FormatError, match=rf"data.jsonl, {message}" if "record" in message else message):
        list(JSONLData(jsonl))


@pytest.mark.parametrize("value", [b"bytes", float("nan"), object()])
def test_values_without_json_form_are_rejected_and_leave_the_old_file(jsonl, value):
    before = jsonl.read_bytes()
    with pytest.raises(SendError, match=r"data.jsonl, datapoint 1: JSON cannot hold it"):
        JSONLSerializer.save([[1], [value]], jsonl)
    assert jsonl.read_bytes() == before


def test_a_replaced_file_is_noticed(jsonl):
    copy = pickle.loads(pickle.dumps(JSONLData(jsonl)))
    assert copy.datapoint(0, 1) == ROWS[1]
    copy = pickle.loads(pickle.dumps(JSONLData(jsonl)))
    JSONLSerializer.save(ROWS[:3], jsonl)
    with pytest.raises(FormatError, match=r"data.jsonl: the file was replaced or changed"):
        copy.datapoint(0, 1)


@pytest.mark.slow
@few_examples()
@given(st.lists(st.tuples(FIELDS, FIELDS), max_size=8), st.sampled_from(",;\t"))
def test_any_table_comes_back(tmp_path_factory, rows, delimiter):
    path = tmp_path_factory.getbasetemp() / "any.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=delimiter).writerows([("a", "b"), *rows])
    read = list(CSVData(path, delimiter=delimiter))
    assert read == [{"a": a, "b": b} for a, b in rows]


def test_columns_are_chosen_and_converted(tmp_path):
    CSVSerializer.save([["x, y", 1.5, 2], ['"z"', -1.0, 3]], tmp_path / "a.csv", ["name", "x", "label"])
    flow = CSVData(tmp_path / "a.csv", {"label": int, "x": np.float32})
    assert same(flow.datapoint(0, 1), {"label": 3, "x": np.float32(-1)})
    assert [row["name"] for row in CSVSerializer.load(tmp_path / "a.csv")] == ["x, y", '"z"']
    check_dataflow(CSVData(tmp_path / "a.csv", shuffle=True), positions=1)
    CSVSerializer.save([{"b": 1, "a": 2}], tmp_path / "b.csv", ["a", "b"])
    assert (tmp_path / "b.csv").read_text() == "a,b\n2,1\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "a name for each column; found"),
        ("a,a\n1,2\n", "a name for each column; found"),
        ("a,b\n1,2\n3\n", r"data.csv, record 1, at byte 8: the row has 1 fields, but the header has 2"),
        ('a,b\n1,"2\n', "its last record, 1, ends inside quotes"),
        ("a,b\n1,x\n", "column 'b': invalid literal for int"),
    ],
)
def test_a_damaged_table_is_named(tmp_path, content, message):
    (tmp_path / "data.csv").write_text(content)
    with pytest.raises(FormatError, match=message):
        list(CSVData(tmp_path / "data.csv", {"b": int} if "b" in content else None))


def test_a_name_of_a_column_may_have_two_lines(tmp_path):
    path = tmp_path / "data.csv"
    CSVSerializer.save([[1, 2]], path, ["two\nlines", "b"])
    assert list(CSVData(path)) == [{"two\nlines": "1", "b": "2"}]


def test_no_row_is_lost_between_quotes_that_begin_no_field(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text('name,size\nit"s,2\n5" disk,3\n')
    with pytest.raises(FormatError, match=r"data\.csv, record 0, at byte 10: unbalanced quote"):
        list(CSVData(path))


def test_wrong_arguments_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    for arguments, kind, message in [
        (({"c": int},), ComponentError, "has no column 'c'; it has a, b"),
        ((["a"],), ArgumentError, "columns is a dict of functions"),
        ((None, False, ";;"), ArgumentError, "delimiter is one character"),
    ]:
        with pytest.raises(kind, match=message):
            CSVData(tmp_path / "a.csv", *arguments)
    with pytest.raises(ArgumentError, match=r"datapoint 0 must have \['a', 'b'\]; received \[1\]"):
        CSVSerializer.save([[1]], tmp_path / "b.csv", ["a", "b"])
    assert os.listdir(tmp_path) == ["a.csv"]


def test_rows_of_svmlight(tmp_path):
    features = np.array([[0, 1.5, 0], [2, 0, 0], [0, 0, 3]])
    for zero_based in (False, True):
        dump_svmlight_file(features, [1, -1, 1], str(tmp_path / "a.svm"), zero_based=zero_based)
        flow = SVMLightData(tmp_path / "a.svm", shuffle=False, zero_based=zero_based)
        assert same([row for row, _ in flow], list(features)) and flow.datapoint(0, 1)[1] == -1
    check_dataflow(SVMLightData(tmp_path / "a.svm", zero_based=True), positions=1)
    (tmp_path / "bad.svm").write_text("1 a:b\n")
    with pytest.raises(FormatError, match=r"bad.svm is not an SVMlight file, or is damaged"):
        SVMLightData(tmp_path / "bad.svm")


def test_a_row_of_svmlight_means_the_same_in_each_file(tmp_path, caplog):
    (tmp_path / "train.svm").write_text("1 1:1 2:5 4:2\n")
    (tmp_path / "test.svm").write_text("0 2:5\n1\n")
    train, test = (SVMLightData(tmp_path / f"{name}.svm", False, n_features=5) for name in ("train", "test"))
    assert same(train.datapoint(0, 0)[0], np.array([1, 5, 0, 2, 0.0]))
    assert same([row for row, _ in test], [np.array([0, 5, 0, 0, 0.0]), np.zeros(5)]) and not caplog.text
    assert len(SVMLightData(tmp_path / "test.svm", False).datapoint(0, 0)[0]) == 2
    assert "test.svm has 2 features, by its largest index; pass n_features" in caplog.text
    (tmp_path / "zero.svm").write_text("1 0:1 2:5\n")
    for arguments, kind, message in [
        ({}, FormatError, r"zero\.svm has the index 0: .* pass zero_based=True"),
        (
            {"zero_based": True, "n_features": 2},
            FormatError,
            r"has the index 2, but the last one for n_features=2 is 1",
        ),
        ({"n_features": 0}, ArgumentError, "n_features is an integer from 1 up"),
    ]:
        with pytest.raises(kind, match=message):
            SVMLightData(tmp_path / "zero.svm", **arguments)


def test_an_empty_file_has_no_lines(tmp_path):
    (tmp_path / "empty").touch()
    assert list(JSONLData(tmp_path / "empty")) == []
    assert json.loads("[]") == []
