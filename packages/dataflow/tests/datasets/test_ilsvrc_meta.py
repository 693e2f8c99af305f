"""Classes, lists and the mean image of the ImageNet competition, in files of the original form."""

import struct

import numpy as np
import pytest

from towerpack_dataflow import ArgumentError, DatasetError, FormatError
from towerpack_dataflow.datasets import ILSVRCMeta, _ilsvrc12

from .conftest import tar

SYNSETS = "".join(f"n{number:08}\n" for number in range(1000))
WORDS = "".join(f"n{number:08} word {number}, other word\n" for number in range(1000))
BGR = np.random.default_rng(0).uniform(0, 255, (3, 4, 5)).astype("<f4")


def size(number, value):
    """A field of a size, which is below 128."""
    return bytes((number << 3, value))


def blob(array=BGR, old=True, packed=True):
    """Bytes of Caffe's message for an array of [channels, height, width]."""
    data = array.tobytes()
    if packed:
        data = bytes((5 << 3 | 2, len(data) & 127 | 128, len(data) >> 7)) + data
    else:
        data = b"".join(bytes((5 << 3 | 5,)) + data[at : at + 4] for at in range(0, len(data), 4))
    if old:
        return b"".join(size(number, value) for number, value in enumerate((1, *array.shape), 1)) + data
    shape = bytes((1 << 3 | 2, 4, 1, *array.shape))
    return data + bytes((7 << 3 | 2, len(shape))) + shape


@pytest.fixture
def meta(tmp_path):
    (tmp_path / "synsets.txt").write_text(SYNSETS)
    (tmp_path / "synset_words.txt").write_text(WORDS)
    (tmp_path / "train.txt").write_text("n00000003/a.JPEG 3\nn00000001/b.JPEG 1\n")
    (tmp_path / "val.txt").write_text("v1.JPEG 7\nv2.JPEG 999\n\n")
    (tmp_path / "test.txt").write_text("t1.JPEG 0\n")
    (tmp_path / "imagenet_mean.binaryproto").write_bytes(blob())
    return ILSVRCMeta(tmp_path)


def test_classes_and_lists(meta):
    assert meta.get_synset_1000()[999] == "n00000999"
    assert meta.get_synset_words_1000()[1] == "n00000001 word 1, other word"
    train = [("n00000003/a.JPEG", 3), ("n00000001/b.JPEG", 1)]
    assert meta.get_image_list("train") == meta.get_image_list("train", "train") == train
    assert meta.get_image_list("val") == [("v1.JPEG", 7), ("v2.JPEG", 999)]
    assert meta.get_image_list("val", "train") == [("n00000007/v1.JPEG", 7), ("n00000999/v2.JPEG", 999)]
    assert meta.get_image_list("test") == [("t1.JPEG", 0)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("dev",), "name is 'train' or 'val' or 'test'; received 'dev'"),
        (("val", "flat"), "dir_structure is 'original' or 'train'; received 'flat'"),
        (("test", "train"), "the classes of the test set are not published"),
    ],
)
def test_a_list_that_there_is_not(arguments, message, meta):
    with pytest.raises(ArgumentError, match=message):
        meta.get_image_list(*arguments)


@pytest.mark.parametrize("old", [True, False])
@pytest.mark.parametrize("packed", [True, False])
def test_the_mean_is_rgb(old, packed, meta):
    (meta.dir / "imagenet_mean.binaryproto").write_bytes(blob(old=old, packed=packed))
    mean = meta.get_per_pixel_mean()
    assert mean.dtype == np.float32 and mean.shape == (4, 5, 3)
    assert (mean == BGR[::-1].transpose(1, 2, 0)).all()
    resized = meta.get_per_pixel_mean((8, 10))
    assert resized.shape == (8, 10, 3) and resized.dtype == np.float32
    np.testing.assert_allclose(resized.mean((0, 1)), mean.mean((0, 1)), rtol=0.1)
    assert meta.get_per_pixel_mean(4).shape == (4, 4, 3)
    with pytest.raises(ArgumentError, match="size is an integer above 0"):
        meta.get_per_pixel_mean((0, 3))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (blob()[:-9], "is truncated or damaged: field 5 has 240 bytes, but 231 are present"),
        (blob(BGR[:, :2, :0]), r"expected float32 of 3 channels, height and width; found 0 bytes"),
        (blob(np.zeros((4, 3, 2), "<f4")), r"found 96 bytes of shape \[4, 3, 2\]"),
        (size(5, 3), "is truncated or damaged"),
        (b"", r"found 0 bytes of shape \[\]"),
    ],
    ids=["cut", "no pixels", "channels", "type", "empty"],
)
def test_a_damaged_mean_is_named(content, message, meta):
    (meta.dir / "imagenet_mean.binaryproto").write_bytes(content)
    with pytest.raises(FormatError, match=rf"imagenet_mean\.binaryproto.* {message}"):
        meta.get_per_pixel_mean()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("synsets.txt", SYNSETS[:-11], "synsets.txt has 999 lines; expected 1000, one per class"),
        ("synsets.txt", "", "synsets.txt is empty; it is in http"),
        ("val.txt", "v1.JPEG 7\nv2.JPEG\n", "val.txt, line 2: received 'v2.JPEG'; the original is text"),
        ("val.txt", "v1.JPEG 1000\n", "val.txt, line 1: received 'v1.JPEG 1000'"),
        ("val.txt", "v1.JPEG 7\n\nv2.JPEG 1", "val.txt, line 2: received ''"),
        ("val.txt", " 7\n", "val.txt, line 1"),
        ("val.txt", b"\xff\xd8\xff", "val.txt is not text"),
    ],
)
def test_a_damaged_list_is_named(name, content, message, meta):
    (meta.dir / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(FormatError, match=message):
        meta.get_image_list("val", "train")


def test_the_archive_is_read_as_it_is(meta, tmp_path):
    folder = tmp_path / "packed"
    folder.mkdir()
    archive = folder / "caffe_ilsvrc12.tar.gz"
    archive.write_bytes(tar(**{"./synsets.txt": SYNSETS.encode(), "train.txt": b"n1/a.JPEG 1\n"}))
    packed = ILSVRCMeta(folder)
    assert packed.get_synset_1000() == meta.get_synset_1000()
    assert packed.get_image_list("train") == [("n1/a.JPEG", 1)]
    with pytest.raises(FormatError, match=r"caffe_ilsvrc12\.tar\.gz has no val\.txt; is it the archive of"):
        packed.get_image_list("val")
    archive.write_bytes(archive.read_bytes()[:1000])
    with pytest.raises(FormatError, match=r"caffe_ilsvrc12\.tar\.gz is truncated or damaged"):
        packed.get_synset_1000()


def test_a_missing_file_is_named(tmp_path, monkeypatch):
    file = _ilsvrc12.DatasetFile("http://127.0.0.1:1/caffe_ilsvrc12.tar.gz", "0" * 32)
    monkeypatch.setattr(_ilsvrc12, "_ARCHIVE", file)
    with pytest.raises(DatasetError, match=r"synsets\.txt is missing, and so is its archive.*put the file"):
        ILSVRCMeta(tmp_path).get_synset_1000()
    monkeypatch.setenv("TOWERPACK_DATASETS", str(tmp_path / "sets"))
    assert ILSVRCMeta().dir == tmp_path / "sets" / "ilsvrc_metadata"


def test_the_layout_is_found(tmp_path):
    (tmp_path / "notes").touch()
    assert ILSVRCMeta.guess_dir_structure(tmp_path) == "original"
    (tmp_path / "n01440764").mkdir()
    assert ILSVRCMeta.guess_dir_structure(tmp_path) == "train"
    with pytest.raises(DatasetError, match="nowhere is missing, or is not a folder"):
        ILSVRCMeta.guess_dir_structure(tmp_path / "nowhere")


def test_numbers_of_the_mean_are_little_endian(meta):
    (meta.dir / "imagenet_mean.binaryproto").write_bytes(
        b"".join(size(number, value) for number, value in enumerate((1, 3, 2, 2), 1))
        + bytes((5 << 3 | 2, 48))
        + struct.pack("<12f", *range(12))
    )
    assert meta.get_per_pixel_mean()[0].tolist() == [[8, 4, 0], [9, 5, 1]]
