"""Tar files of samples: written, indexed, read in any order, and damaged in every way."""

import gzip
import io
import logging
import os
import pickle
import tarfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from towerpack_dataflow import (
    ArgumentError,
    ArgumentTypeError,
    DataFlowError,
    FormatError,
    MultiProcessRunner,
    TarData,
    index_tar,
    write_tar,
    write_tar_shards,
)
from towerpack_dataflow.testing import check_dataflow

SAMPLES = [
    {"__key__": f"train/{number:03}", "seg.png": bytes([number]) * number, "cls": str(number).encode()}
    for number in range(30)
]


@pytest.fixture
def path(tmp_path):
    write_tar(SAMPLES, tmp_path / "data.tar")
    return tmp_path / "data.tar"


def label(sample):
    return [int(sample["cls"]), len(sample["seg.png"])]


def test_a_written_file_is_read_back_and_by_tar(path):
    assert list(TarData(path)) == SAMPLES and TarData(path).datapoint(0, 7) == SAMPLES[7]
    assert sorted(os.listdir(path.parent)) == ["data.tar", "data.tar.index"]
    with tarfile.open(path) as archive:
        assert archive.getnames()[:2] == ["train/000.seg.png", "train/000.cls"]
        assert archive.extractfile("train/004.cls").read() == b"4"


def test_it_keeps_the_promises_of_a_flow(path):
    check_dataflow(TarData(path, label), positions=3)
    check_dataflow(TarData(path, shuffle=True), positions=2)
    assert repr(TarData(path)) == f"TarData(path={path} of 30 samples)"


@pytest.mark.slow
def test_workers_open_the_file_for_themselves(path):
    flow = MultiProcessRunner(TarData(path, label), 2, start_method="spawn")
    assert list(flow) == [[number, number] for number in range(30)]


def test_without_an_index_the_file_is_read(path, caplog):
    os.unlink(f"{path}.index")
    assert list(TarData(path)) == SAMPLES
    assert index_tar(path) == 30
    write_tar(SAMPLES[:3], path.with_name("other.tar"))
    os.replace(f"{path.with_name('other.tar')}.index", f"{path}.index")
    with caplog.at_level(logging.WARNING):
        assert list(TarData(path)) == SAMPLES
    assert "is outdated, or has another version" in caplog.text


def test_files_of_others(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name in ("./", "a.jpg", "a.txt", "b.jpg", "sub/a.jpg", "plain"):
            member = tarfile.TarInfo(name)
            member.type = tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
            member.size = 0 if name.endswith("/") else len(name)
            archive.addfile(member, io.BytesIO(name.encode()))
        link = tarfile.TarInfo("c.jpg")
        link.type, link.linkname = tarfile.SYMTYPE, "a.jpg"
        archive.addfile(link)
    assert list(TarData(tmp_path / "a.tar")) == [
        {"__key__": "a", "jpg": b"a.jpg", "txt": b"a.txt"},
        {"__key__": "b", "jpg": b"b.jpg"},
        {"__key__": "sub/a", "jpg": b"sub/a.jpg"},
        {"__key__": "c", "jpg": b"a.jpg"},
    ]


def test_an_empty_tar_has_no_samples(tmp_path):
    write_tar([], tmp_path / "a.tar")
    assert list(TarData(tmp_path / "a.tar")) == []


def test_shards_have_all_samples_and_keep_to_their_size(tmp_path):
    paths = write_tar_shards(SAMPLES, f"{tmp_path}/train-{{:03d}}.tar", max_bytes=10_000)
    assert len(paths) > 3 and all(os.path.getsize(path) <= 20_480 for path in paths)
    assert [sample for path in paths for sample in TarData(path)] == SAMPLES


def test_a_copy_notices_a_replaced_file(path):
    copy = pickle.loads(pickle.dumps(TarData(path)))
    write_tar(SAMPLES[:3], path)
    with pytest.raises(FormatError, match=r"data.tar: the file was replaced or changed"):
        list(copy)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda raw: raw[:700], "are neither a member nor the end: the file is truncated"),
        (lambda raw: b"", "is not a tar file, or is truncated or damaged"),
        (lambda raw: b"x" * 5000, "is not a tar file"),
        (gzip.compress, "is compressed: decompress it first"),
    ],
)
def test_a_damaged_file_is_named(path, damage, message):
    path.write_bytes(damage(path.read_bytes()))
    os.unlink(f"{path}.index")
    with pytest.raises(FormatError, match=rf"data.tar.*({message})"):
        TarData(path)


@given(st.data())
def test_damaged_files_and_indices_are_errors_or_other_values(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "fuzz.tar"
    write_tar(SAMPLES[:4], path)
    target = data.draw(st.sampled_from([path, path.with_name("fuzz.tar.index")]))
    if target == path:
        os.unlink(f"{path}.index")
    content = bytearray(target.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    del content[data.draw(st.integers(0, len(content))) :]
    target.write_bytes(content)
    try:
        list(TarData(path))
    except DataFlowError as error:
        assert "fuzz.tar" in str(error)


def test_a_member_that_comes_twice_is_an_error(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for _ in range(2):
            archive.addfile(tarfile.TarInfo("a.jpg"), io.BytesIO())
    with pytest.raises(FormatError, match=r"sample 0: it has 'a.jpg' twice"):
        list(TarData(tmp_path / "a.tar"))


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([{"cls": b"1"}], "sample 0 must be a dict with a key"),
        ([{"__key__": "a.b", "cls": b"1"}], "text without a dot in its last part"),
        ([{"__key__": "a", "cls": 1}], "sample 0: 'cls' must be bytes or text; received int"),
        ([{"__key__": "a"}], "sample 0 has no members"),
        (
            [{"__key__": "a", "x": b""}, {"__key__": "a", "y": b""}],
            "sample 1 has the same key as the previous one, 'a'",
        ),
        ([np.zeros(3)], "sample 0 must be a dict"),
    ],
)
def test_an_invalid_sample_is_rejected_and_leaves_the_old_file(path, samples, message):
    before = path.read_bytes()
    with pytest.raises(ArgumentError, match=message):
        write_tar(samples, path)
    assert path.read_bytes() == before and list(TarData(path)) == SAMPLES


def test_wrong_arguments_are_refused(path):
    with pytest.raises(ArgumentTypeError, match="decoder is a function of a sample's dict; received str"):
        TarData(path, "jpg")
    with pytest.raises(ArgumentError, match="expected a field for a number"):
        write_tar_shards(SAMPLES, "train.tar")
    with pytest.raises(FileNotFoundError):
        TarData("/no/such.tar")
