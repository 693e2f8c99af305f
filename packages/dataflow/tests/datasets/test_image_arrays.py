"""Data sets of small images, read from small files in the original formats."""

import hashlib
import pickle
import sys

import numpy as np
import pytest
from scipy.io import savemat

from towerpack_dataflow import ArgumentError, BatchData, DatasetError, FormatError
from towerpack_dataflow.datasets import (
    Caltech101Silhouettes,
    Cifar10,
    Cifar100,
    FashionMnist,
    Mnist,
    SVHNDigit,
    _mnist,
)
from towerpack_dataflow.testing import check_dataflow

from .conftest import idx, tar

RNG = np.random.default_rng(1)
RECORDS = RNG.integers(0, 256, (6, 3073), np.uint8)


@pytest.mark.parametrize("kind", [Mnist, FashionMnist])
def test_digits(kind, write_mnist, tmp_path):
    images, labels = write_mnist()
    flow = kind("train", shuffle=False, dir=tmp_path)
    assert len(flow) == 7 and len(flow.get_label_names()) == 10
    batch = next(iter(BatchData(flow, 7)))
    assert batch[0].dtype == np.float32 and batch[1].tolist() == labels.tolist()
    np.testing.assert_allclose(batch[0], images / 255, rtol=1e-6)
    np.testing.assert_allclose(flow.get_per_pixel_mean(), images.mean(0) / 255, rtol=1e-5)
    check_dataflow(kind("train", dir=tmp_path))
    assert len(pickle.loads(pickle.dumps(flow))) == 7


def test_a_missing_file_is_downloaded(server, write_mnist, tmp_path, monkeypatch):
    write_mnist()
    server.content = idx(RNG.integers(0, 256, (3, 28, 28), np.uint8))
    digits = _mnist._DIGITS._replace(mirror=server.url.removesuffix("data.bin"))
    monkeypatch.setattr(_mnist, "_DIGITS", digits)
    images = "t10k-images-idx3-ubyte.gz"
    monkeypatch.setitem(digits.checksums, images, hashlib.md5(server.content).hexdigest())
    (tmp_path / "t10k-labels-idx1-ubyte.gz").write_bytes(idx(np.arange(3, dtype=np.uint8)))
    assert [label for _, label in Mnist("test", dir=tmp_path)] == [0, 1, 2]
    assert (tmp_path / images).exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (idx(np.zeros((2, 28, 28), np.uint8))[:-20], "images.*is truncated or damaged .*delete it"),
        (
            idx(np.zeros((2, 28), np.uint8)),
            "is not an IDX file of bytes with 3 axes: it begins with 00000802",
        ),
        (b"<html>not found</html>", "is truncated or damaged"),
        (idx(np.zeros((9, 28, 28), np.uint8)), "has 7 labels, but there are 9 images"),
        (b"", "is not an IDX file"),
    ],
    ids=["cut off", "two axes", "a page of the web", "more images than labels", "empty"],
)
def test_a_damaged_file_of_digits_is_named(content, message, write_mnist, tmp_path):
    write_mnist()
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(content)
    with pytest.raises(FormatError, match=message):
        Mnist("train", dir=tmp_path)


def cifar10(tmp_path, **members):
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(
        tar(
            **{
                **{f"cifar-10-batches-bin/data_batch_{part}.bin": RECORDS.tobytes() for part in range(1, 6)},
                "cifar-10-batches-bin/test_batch.bin": RECORDS[:2].tobytes(),
                "cifar-10-batches-bin/batches.meta.txt": b"airplane\nautomobile\n\n",
                **members,
            }
        )
    )


def test_photographs_of_ten_classes(tmp_path):
    cifar10(tmp_path)
    flow = Cifar10("train", shuffle=False, dir=tmp_path)
    image, label = list(flow)[8]
    assert label == RECORDS[2, 0] and image.dtype == np.uint8
    assert (image == RECORDS[2, 1:].reshape(3, 32, 32).transpose(1, 2, 0)).all()
    assert len(flow) == 30 and len(Cifar10("test", dir=tmp_path)) == 2
    assert flow.get_label_names() == ["airplane", "automobile"]
    whole = RECORDS[:, 1:].reshape(-1, 3, 1024)
    np.testing.assert_allclose(flow.get_per_channel_mean(), whole.mean((0, 2)), rtol=1e-5)
    check_dataflow(flow)


def test_photographs_of_a_hundred_classes(tmp_path):
    records = RNG.integers(0, 256, (3, 3074), np.uint8)
    names = {"cifar-100-binary/fine_label_names.txt": b"apple\nbear\n"}
    content = tar(**names, **{"cifar-100-binary/train.bin": records.tobytes()})
    (tmp_path / "cifar-100-binary.tar.gz").write_bytes(content)
    flow = Cifar100("train", shuffle=False, dir=tmp_path)
    assert [label for _, label in flow] == records[:, 1].tolist() and flow.get_label_names()[1] == "bear"
    with pytest.raises(FormatError, match=r"has no cifar-100-binary/test.bin; is it the binary version"):
        Cifar100("test", dir=tmp_path)


def test_a_damaged_archive_is_named(tmp_path):
    cifar10(tmp_path, **{"cifar-10-batches-bin/test_batch.bin": b"12"})
    with pytest.raises(FormatError, match=r"test_batch.bin has 2 bytes, which is not a multiple of 3073"):
        Cifar10("test", dir=tmp_path)
    path = tmp_path / "cifar-10-binary.tar.gz"
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(FormatError, match=r"binary.tar.gz is truncated or damaged"):
        Cifar10("test", dir=tmp_path)


def test_house_numbers(tmp_path):
    images = RNG.integers(0, 256, (4, 32, 32, 3), np.uint8)
    labels = np.array([[10], [1], [9], [10]], np.uint8)
    savemat(tmp_path / "train_32x32.mat", {"X": images.transpose(1, 2, 3, 0), "y": labels})
    flow = SVHNDigit("train", shuffle=False, dir=tmp_path)
    assert [label for _, label in flow] == [0, 1, 9, 0] and (next(iter(flow))[0] == images[0]).all()
    check_dataflow(SVHNDigit("train", dir=tmp_path))


def test_silhouettes(tmp_path):
    path = tmp_path / "caltech101_silhouettes_28_split1.mat"
    with pytest.raises(DatasetError, match=r"split1.mat is missing; put the file from https://people"):
        Caltech101Silhouettes("val", dir=tmp_path)
    columns = RNG.integers(0, 2, (3, 28, 28), np.uint8)
    names = np.array([["ant"], ["bee"]], object).T
    content = {"val_data": columns.reshape(3, -1), "val_labels": [[1], [2], [1]], "classnames": names}
    savemat(path, content)
    flow = Caltech101Silhouettes("val", dir=tmp_path)
    assert [label for _, label in flow] == [0, 1, 0] and flow.get_label_names() == ["ant", "bee"]
    assert (next(iter(flow))[0] == columns[0].T).all()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"y": [1]}, "has no X"),
        ({"X": np.zeros((32, 32, 3, 2), np.uint8), "y": [[1]]}, "one label each in y; found uint8"),
    ],
)
def test_a_damaged_file_of_matlab_is_named(content, message, tmp_path):
    path = tmp_path / "test_32x32.mat"
    savemat(path, content)
    with pytest.raises(FormatError, match=message):
        SVHNDigit("test", dir=tmp_path)
    path.write_bytes(path.read_bytes()[:150])
    with pytest.raises(FormatError, match=r"test_32x32.mat is truncated or damaged"):
        SVHNDigit("test", dir=tmp_path)


def test_wrong_names_are_refused():
    for kind in (Mnist, Cifar10, SVHNDigit, Caltech101Silhouettes):
        with pytest.raises(ArgumentError, match="received 'testing'"):
            kind("testing")


def test_the_folder_comes_from_the_environment(monkeypatch, write_mnist, tmp_path):
    write_mnist()
    tmp_path.joinpath("mnist").symlink_to(tmp_path)
    monkeypatch.setenv("TOWERPACK_DATASETS", str(tmp_path))
    assert len(Mnist("train")) == 7


def test_without_scipy_the_extra_is_named(monkeypatch, tmp_path):
    (tmp_path / "test_32x32.mat").touch()
    monkeypatch.setitem(sys.modules, "scipy.io", None)
    with pytest.raises(ImportError, match=r"towerpack-dataflow\[datasets\]"):
        SVHNDigit("test", dir=tmp_path)
