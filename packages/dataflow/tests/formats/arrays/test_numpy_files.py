"""NumPy's files: mapped, written, and damaged in every way."""

import io
import os
import pickle
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from any_datapoints import difference
from hypothesis import given
from hypothesis import strategies as st

from towerpack_dataflow import (
    ArgumentError,
    BatchData,
    DataFlowError,
    DataFromList,
    FormatError,
    MultiProcessRunner,
    NumpyData,
    NumpySerializer,
    SendError,
    StorageError,
)
from towerpack_dataflow.testing import check_dataflow, same

X = np.arange(60, dtype=np.float32).reshape(20, 3)
LABELS = np.arange(20)


@pytest.fixture
def npz(tmp_path):
    np.savez(tmp_path / "data.npz", x=X, label=LABELS)
    return tmp_path / "data.npz"


def test_rows_of_one_array(tmp_path):
    np.save(tmp_path / "x.npy", X)
    flow = NumpyData(tmp_path / "x.npy", shuffle=False)
    assert (next(iter(BatchData(flow, 20)))[0] == X).all()
    assert repr(flow) == f"NumpyData(path={tmp_path / 'x.npy'} of 20 rows, shuffle=False)"
    check_dataflow(NumpyData(tmp_path / "x.npy"), positions=3)


def test_rows_of_several_arrays(npz):
    flow = NumpyData(npz, shuffle=False)
    batch = next(iter(BatchData(flow, 20)))
    assert (batch["x"] == X).all() and (batch["label"] == LABELS).all()
    check_dataflow(NumpyData(npz), positions=3)
    row = flow.datapoint(0, 3)["x"]
    row[:] = 0  # a copy
    assert (flow.datapoint(0, 3)["x"] == X[3]).all()


@pytest.mark.parametrize(
    "array",
    [np.asfortranarray(X), X[:0], np.zeros((4, 0)), X.astype(">f8"), X.view([("a", "f4")]), LABELS > 3],
)
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_of_all_kinds(tmp_path, array, save):
    save(tmp_path / "data.npz", array=array)
    flow = NumpyData(tmp_path / "data.npz", shuffle=False)
    assert same([row["array"] for row in flow], list(array))


def test_nothing_is_copied_before_it_is_read(tmp_path):
    path = tmp_path / "large.npy"
    np.lib.format.open_memmap(path, "w+", np.uint8, (2**16, 2**16))[5, 7] = (
        9  # 4 GB, of which a page is there
    )
    assert NumpyData(path, shuffle=False).datapoint(0, 5)[0][7] == 9
    assert len(pickle.dumps(NumpyData(path))) < 2000


@pytest.mark.slow
@pytest.mark.parametrize("start_method", ["fork", "spawn"])
def test_workers_map_the_file_for_themselves(npz, start_method):
    flow = MultiProcessRunner(NumpyData(npz, shuffle=False), 2, start_method=start_method)
    assert [datapoint["label"] for datapoint in flow] == list(range(20))


def test_a_replaced_file_is_noticed(npz):
    content = pickle.dumps(NumpyData(npz))
    np.savez(npz, x=X[:5], label=LABELS[:5])
    with pytest.raises(FormatError, match=r"data.npz: the file was replaced or changed"):
        pickle.loads(content)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a .npy file"),
        (b"something else", "is not a .npy file, or its header is damaged"),
        (b"PK", "is not a .npz file, or is truncated"),
    ],
)
def test_another_format_is_named(tmp_path, content, message):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(FormatError, match=rf"file {message}"):
        NumpyData(tmp_path / "file")


def test_an_array_without_rows_is_rejected(tmp_path):
    np.save(tmp_path / "one.npy", np.float32(5))
    with pytest.raises(FormatError, match=r"one.npy holds a single number, which has no rows"):
        NumpyData(tmp_path / "one.npy")
    np.save(tmp_path / "objects.npy", np.array([{}, None]), allow_pickle=True)
    with pytest.raises(FormatError, match=r"objects.npy holds Python objects"):
        NumpyData(tmp_path / "objects.npy")
    np.savez(tmp_path / "two.npz", a=X, b=LABELS[:3])
    with pytest.raises(ArgumentError, match="components of one length; received 20 in 'a', 3 in 'b'"):
        NumpyData(tmp_path / "two.npz")
    with pytest.raises(FileNotFoundError):
        NumpyData(tmp_path / "none.npy")


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_a_file_that_may_not_be_read_is_the_systems_error(npz):
    os.chmod(npz, 0)
    with pytest.raises(PermissionError):
        NumpyData(npz)


@given(st.data())
def test_a_damaged_file_is_an_error_or_other_values(tmp_path_factory, data):
    folder = tmp_path_factory.getbasetemp()
    (np.savez_compressed if data.draw(st.booleans()) else np.savez)(
        folder / "good.npz", x=X[:4], label=LABELS[:4]
    )
    content = bytearray((folder / "good.npz").read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    del content[data.draw(st.integers(1, len(content))) :]
    (folder / "bad.npz").write_bytes(content)
    for read in (NumpyData, NumpySerializer.load):
        try:
            list(read(folder / "bad.npz"))
        except DataFlowError as error:
            assert "bad.npz" in str(error) or "one length" in str(error)


FLOWS = {
    "arrays": [[np.full((2, 3), number, np.float32), number] for number in range(5)],
    "dicts": [{"x": np.float64(number), "y": np.zeros(2)} for number in range(5)],
    "tuples": [(number, number / 2) for number in range(5)],
    "ragged": [[np.zeros(number), "text", None] for number in range(5)],
    "mixed": [[1], {"a": b"bytes"}],
    "empty": [],
}


@pytest.mark.parametrize("name", FLOWS)
def test_a_saved_flow_is_loaded(tmp_path, name):
    path = tmp_path / "flow.npz"
    NumpySerializer.save(DataFromList(FLOWS[name], shuffle=False), path)
    loaded = list(NumpySerializer.load(path, shuffle=False))
    if name in {"ragged", "mixed", "empty", "tuples", "arrays"}:
        assert same(loaded, FLOWS[name])
    else:
        assert [type(datapoint) for datapoint in loaded] == [type(datapoint) for datapoint in FLOWS[name]]
        assert all(np.all(a == b) for one, other in zip(loaded, FLOWS[name]) for a, b in zip(one, other))
        assert b"pickle" not in path.read_bytes()
    if loaded:
        check_dataflow(NumpySerializer.load(path), positions=2)


def test_files_of_tensorpack_are_read_and_run_nothing(tmp_path):
    path = tmp_path / "old.npz"
    old = np.empty(3, object)
    old[:] = [[np.arange(3), 1], [np.zeros(2), "a"], [None, 2.5]]
    np.savez_compressed(path, buffer=old)
    assert same(list(NumpySerializer.load(path, shuffle=False)), old.tolist())
    evil = np.empty(1, object)
    evil[:] = [Evil()]
    np.savez_compressed(path, buffer=evil)
    with pytest.raises(FormatError, match=r"needs .*, which could execute any code"):
        NumpySerializer.load(path)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("pickled", "found"),
    [
        ([[1, 2], [3]], [[1, 2], [3]]),
        (np.array([[np.array([[1, 2], [3]], object), 5]], object), [[np.array([[1, 2], [3]], object), 5]]),
        (np.array([None, 0], object), [None, 0]),
    ],
    ids=["lists", "unequal lists within", "no lists"],
)
def test_unequal_lists_of_tensorpack_are_read(tmp_path, pickled, found):
    array = np.empty(1, object)
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
    with zipfile.ZipFile(tmp_path / "old.npz", "w") as archive:
        archive.writestr("buffer.npy", file.getvalue() + pickle.dumps(pickled, 3))
    read = list(NumpySerializer.load(tmp_path / "old.npz", shuffle=False))
    assert difference(found, read) is None


def test_lists_that_numpy_took_for_one_array_are_lists_again(tmp_path):
    path = tmp_path / "old.npz"
    images = [[np.full((2, 2), number, np.uint8), number] for number in range(3)]
    for points in (images, [[np.ones(2), np.zeros(2)]] * 3):
        np.savez_compressed(path, buffer=np.asarray(points, dtype=object))
        flow = NumpySerializer.load(path, shuffle=False)
        assert same(list(flow), points)
        check_dataflow(BatchData(flow, 2), positions=2)
    np.savez_compressed(path, buffer=np.zeros(3))
    with pytest.raises(FormatError, match=r"old.npz holds float64; expected a list of datapoints"):
        NumpySerializer.load(path)


@pytest.mark.parametrize("name", ["arrays", "ragged"])
def test_a_copy_maps_the_file_for_itself(tmp_path, name):
    path = tmp_path / "flow.npz"
    large = [[np.zeros(10_000)] if name == "arrays" else [np.zeros(10_000), None]] * 50
    NumpySerializer.save(large, path)
    flow = NumpySerializer.load(path)
    content = pickle.dumps(flow)
    assert len(content) < 2000 and same(next(iter(pickle.loads(content))), large[0])
    NumpySerializer.save(FLOWS[name], path)
    with pytest.raises(FormatError, match=r"flow.npz: the file was replaced or changed"):
        pickle.loads(content)
    assert same(flow.datapoint(0, 0), large[0])


@pytest.mark.parametrize(
    "damage",
    [
        {"ends": np.array([5, 3])},
        {"ends": np.array([1, 2, 3])},
        {"ends": np.array([0.5, 2.5])},
        {"records": np.zeros(3, np.uint8)},
        {"towerpack": np.frombuffer(b'{"version": 1}', np.uint8)},
        {"towerpack": np.frombuffer(b'{"version": 1, "kind": "list", "keys": [0], "count": 2}', np.uint8)},
        {"towerpack": np.frombuffer(b"[1]", np.uint8)},
    ],
)
def test_members_that_do_not_fit_are_refused(tmp_path, damage):
    path = tmp_path / "flow.npz"
    NumpySerializer.save(FLOWS["mixed"], path)
    with np.load(path) as file:
        members = {name: file[name] for name in file.files}
    np.savez(path, **{**members, **damage})
    with pytest.raises(FormatError, match=r"flow\.npz"):
        list(NumpySerializer.load(path))


def test_names_of_members_and_shapes_that_nothing_can_have(tmp_path):
    path = tmp_path / "data.npz"
    np.savez_compressed(path, x=X)
    content = bytearray(path.read_bytes())
    place = content.rindex(b"PK\x01\x02")
    content[place + 9] |= 8  # names are UTF-8, and this one is not
    content[place + 46] = 0xFF
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"data\.npz is not a .npz file"):
        NumpyData(path)
    np.savez(path)
    with pytest.raises(FormatError, match=r"data\.npz holds no array"):
        NumpyData(path)
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (0, %d), }" % 2**70
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with pytest.raises(FormatError, match=r"x\.npy: an array"):
        NumpyData(tmp_path / "x.npy")


class Evil:
    def __reduce__(self):
        return os.system, ("touch run",)


def test_other_files_are_refused(npz, tmp_path):
    with pytest.raises(FormatError, match=r"was not written by NumpySerializer: it has the arrays x, label"):
        NumpySerializer.load(npz)
    head = np.frombuffer(b'{"version": 2}', np.uint8)
    np.savez(tmp_path / "new.npz", towerpack=head)
    with pytest.raises(FormatError, match=r"has version 2, and this release reads version 1"):
        NumpySerializer.load(tmp_path / "new.npz")


def test_an_unsupported_datapoint_is_rejected_and_leaves_the_old_file(npz):
    before = npz.read_bytes()
    with pytest.raises(SendError, match="object"):
        NumpySerializer.save([[object()]], npz)
    assert npz.read_bytes() == before and os.listdir(npz.parent) == ["data.npz"]


def test_without_msgpack_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "towerpack_dataflow.formats.encoding._stored_datapoints", None)
    with pytest.raises(ImportError, match=r"towerpack-dataflow\[msgpack\]"):
        NumpySerializer.save([["text"]], tmp_path / "flow.npz")


def _write_savez(path):
    np.savez(path, x=X[:4], label=LABELS[:4])


def _write_savez_compressed(path):
    np.savez_compressed(path, x=X[:4], label=LABELS[:4])


def _write_stacked(path):
    NumpySerializer.save([[X[number], number] for number in range(4)], path)


def _write_records(path):
    NumpySerializer.save([[X[:number], "text"] for number in range(4)], path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("write", "read"),
    [
        (_write_savez, NumpyData),
        (_write_savez_compressed, NumpyData),
        (_write_stacked, NumpySerializer.load),
        (_write_records, NumpySerializer.load),
    ],
)
def test_a_flipped_bit_is_an_error_or_changes_nothing(tmp_path, write, read):
    path = tmp_path / "data.npz"
    write(path)
    good, content = list(read(path, shuffle=False)), path.read_bytes()
    for place in range(0, len(content), 3):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :])
        try:
            assert same(list(read(path, shuffle=False)), good), f"byte {place}"
        except FormatError as error:
            assert "data.npz" in str(error)


def test_the_checksums_are_not_looked_at_on_request(npz):
    content = bytearray(npz.read_bytes())
    content[content.index(X.tobytes()) + 3] ^= 1
    npz.write_bytes(content)
    with pytest.raises(
        FormatError, match=r"data\.npz, array 'x', is damaged: its bytes do not match the checksum"
    ):
        NumpyData(npz)
    assert len(list(NumpyData(npz, verify=False))) == 20
    # A copy for a worker has the file that was checked.
    np.savez(npz, x=X, label=LABELS)
    assert len(list(pickle.loads(pickle.dumps(NumpyData(npz))))) == 20
    with pytest.raises(TypeError, match="verify"):
        NumpyData(npz, verify=1)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_of_one_name_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "data.npz", "w") as archive:
        for name in ("x.npy", "x"):
            with archive.open(name, "w") as member:
                np.lib.format.write_array(member, X)
    with pytest.raises(FormatError, match=r"data\.npz has two arrays named 'x'"):
        NumpyData(tmp_path / "data.npz")


@pytest.mark.parametrize(
    "rows",
    [
        [[[1, 2], 5], [[3], 5]],  # lists of different lengths
        [[[1, 2], 5], [[3, 4], 5]],  # and of one length: both stay lists
        [[2**63, 1], [1, 1]],
        [[True, 1.0, 1j], [False, -0.0, -1j]],
        [[1], [True]],
        [[1], [1.0]],
        [[np.int64(1)], [1]],
        [[np.zeros(())], [np.ones(())]],
        [[np.zeros((2, 0), ">f8")], [np.ones((2, 0), ">f8")]],
        [[np.arange(3, dtype=">i2")], [np.arange(3, dtype=">i2")]],
        [[np.datetime64(5, "ns"), np.array([5], "m8[D]")]] * 2,
        [[np.float16(1), np.bool_(True)]] * 2,
        [{True: 1}, {1: 1}],
        [{1: 1, "1": 2, "\ud800": 3}] * 2,
        [{}, {}],
        [[], []],
        [(1, None)] * 2,
    ],
)
def test_each_value_is_restored_with_any_other_rows(tmp_path, rows):
    NumpySerializer.save(rows, tmp_path / "flow.npz")
    assert same(list(NumpySerializer.load(tmp_path / "flow.npz", shuffle=False)), rows)
    for row in rows:
        NumpySerializer.save([row], tmp_path / "flow.npz")
        assert same(list(NumpySerializer.load(tmp_path / "flow.npz")), [row])


def test_masked_arrays_are_refused(npz):
    before = npz.read_bytes()
    with pytest.raises(SendError, match=r"[Mm]asked"):
        NumpySerializer.save([[np.ma.masked_array(X[0], [True, False, False])]] * 2, npz)
    assert npz.read_bytes() == before


def test_an_array_that_is_filled_again_and_again_is_copied(tmp_path):
    def flow():
        memory = np.zeros(3)
        for number in range(5):
            memory[:] = number
            yield [memory]

    NumpySerializer.save(flow(), tmp_path / "flow.npz")
    rows = list(NumpySerializer.load(tmp_path / "flow.npz", shuffle=False))
    assert same(rows, [[np.full(3, float(number))] for number in range(5)])


@pytest.mark.parametrize(
    "read", [list, lambda flow: list(BatchData(flow, 5)), lambda flow: flow.datapoint(0, 9)]
)
@pytest.mark.parametrize("change", ["cut", "written"])
@pytest.mark.parametrize("name", ["x.npy", "x.npz", "records.npz"])
def test_a_file_that_is_written_to_while_it_is_read_is_an_error(tmp_path, read, change, name):
    path = tmp_path / name
    if name == "x.npy":
        np.save(path, X)
    elif name == "x.npz":
        np.savez(path, x=X)
    else:
        NumpySerializer.save([[X[:number], number] for number in range(10)], path)
    flow = (NumpySerializer.load if name == "records.npz" else NumpyData)(path, shuffle=False)
    next(iter(flow))
    if change == "cut":
        os.truncate(path, 0)
    else:
        path.write_bytes(path.read_bytes())
        os.utime(path, ns=(0, 5))
    with pytest.raises(
        StorageError, match=rf"{name} was (truncated to 0 bytes|written to) while it was being read"
    ):
        read(flow)


def test_a_file_that_is_replaced_is_read_on(npz):
    flow = NumpyData(npz, shuffle=False)
    np.savez(npz.with_name("other.npz"), x=X[:3])
    os.replace(npz.with_name("other.npz"), npz)
    assert len(list(flow)) == 20
    npz.unlink()
    assert len(list(flow)) == 20


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("shape", [(9, 2000), (9, 3), (9,), (9, 40, 0), (9, 30, 40)])
@pytest.mark.parametrize("dtype", ["f8", ">i2", "M8[s]", [("a", "i4"), ("b", "f8")]])
def test_rows_and_batches_are_those_of_the_array(tmp_path, save, shape, dtype):
    raw = np.random.default_rng(0).integers(0, 99, (*shape, np.dtype(dtype).itemsize), np.uint8)
    array = raw.view(dtype)[..., 0]
    for kept in (array, np.asfortranarray(array)):
        save(tmp_path / "data.npz", x=kept, y=np.arange(9))
        flow = NumpyData(tmp_path / "data.npz", shuffle=False)
        assert same([row["x"] for row in flow], list(kept))
        for batches in (BatchData(flow, 4), BatchData(NumpyData(tmp_path / "data.npz"), 4)):
            for batch in batches:
                assert same(batch["x"], kept[batch["y"]])


@pytest.mark.slow
@pytest.mark.parametrize("batched", [False, True])
def test_a_file_that_is_cut_while_a_row_is_read_is_an_error_and_no_signal(tmp_path, batched):
    path = tmp_path / "large.npy"
    np.save(path, np.zeros((64, 2**18)))  # rows of 2 MiB
    code = (
        "import os, sys, threading\n"
        "from towerpack_dataflow import BatchData, NumpyData, RepeatedData, StorageError\n"
        "flow = RepeatedData(NumpyData(sys.argv[1]), -1)\n"
        "passed = iter(BatchData(flow, 8) if sys.argv[2] == 'True' else flow)\n"
        "next(passed)\n"
        "threading.Timer(0.2, os.truncate, (sys.argv[1], 5000)).start()\n"
        "try:\n"
        "    for _ in passed: pass\n"
        "except StorageError as error:\n"
        "    assert 'was truncated' in str(error) or 'was written to' in str(error)\n"
        "    sys.exit(7)"
    )
    end = subprocess.run([sys.executable, "-c", code, str(path), str(batched)], timeout=100)
    assert end.returncode == 7
