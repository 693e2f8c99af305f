"""Photographs with edges, in files laid out as in the archive."""

import numpy as np
import pytest
from scipy.io import savemat

from towerpack_dataflow import ArgumentError, DatasetError, FormatError
from towerpack_dataflow.datasets import BSDS500
from towerpack_dataflow.testing import check_dataflow


def write_edges(path, drawn):
    """Writes the drawings of several people, each an array of 0 and 1."""
    path.parent.mkdir(parents=True, exist_ok=True)
    people = np.empty((1, len(drawn)), object)
    for number, edges in enumerate(drawn):
        people[0, number] = {"Segmentation": edges.astype(np.uint16), "Boundaries": edges}
    savemat(path, {"groundTruth": people}, do_compression=True)


@pytest.fixture
def data(tmp_path, write_image):
    """The archive's folder `data`, with a lying and an upright photograph to train on."""
    data = tmp_path / "BSR" / "BSDS500" / "data"
    drawn = np.zeros((3, 321, 481), np.uint8)
    drawn[:, 5, 7], drawn[:2, 9, 9], drawn[0, 100, 400] = 1, 1, 1
    write_image(data / "images" / "train" / "100075.jpg", shape=(321, 481))
    write_image(data / "images" / "train" / "8143.jpg", shape=(481, 321))
    write_edges(data / "groundTruth" / "train" / "100075.mat", drawn)
    write_edges(data / "groundTruth" / "train" / "8143.mat", [drawn[0].T])
    (data / "images" / "train" / "Thumbs.db").touch()
    return data


def test_edges_are_the_fraction_of_people_who_drew_them(data, tmp_path):
    (image, edges), (upright, other) = list(BSDS500("train", shuffle=False, dir=tmp_path))
    assert image.shape == upright.shape == (321, 481, 3) and image.dtype == np.uint8
    assert np.abs(image[0, 0].astype(int) - (200, 30, 90)).max() <= 3
    assert edges.dtype == np.float32 and edges.shape == other.shape == (321, 481)
    assert edges[5, 7] == 1 and edges[9, 9] == np.float32(2 / 3) and edges[100, 400] == np.float32(1 / 3)
    assert np.count_nonzero(edges) == 3 and np.argwhere(other).tolist() == [[5, 7], [9, 9], [100, 400]]


@pytest.mark.slow
def test_the_flow_keeps_the_promises_of_flows(data, tmp_path):
    check_dataflow(BSDS500("train", dir=tmp_path))


def test_a_missing_file_is_named(data, tmp_path):
    with pytest.raises(ArgumentError, match="name is 'train' or 'test' or 'val'; received 'all'"):
        BSDS500("all", dir=tmp_path)
    with pytest.raises(
        DatasetError, match=r"the folder .*images/val is missing; unpack http.*BSR_bsds500\.tgz"
    ):
        BSDS500("val", dir=tmp_path)
    (data / "groundTruth" / "train" / "8143.mat").unlink()
    with pytest.raises(DatasetError, match=r"but 8143 is in only one of the folders; unpack"):
        BSDS500("train", dir=tmp_path)


@pytest.mark.parametrize("damage", ["cut", "size", "structure"])
def test_damaged_edges_are_named(damage, data, tmp_path):
    path = data / "groundTruth" / "train" / "100075.mat"
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-40])
    elif damage == "size":
        write_edges(path, np.zeros((2, 320, 481), np.uint8))
    else:
        savemat(path, {"groundTruth": np.arange(3.0)})
    message = {
        "cut": "is truncated",
        "size": r"found \(320, 481\)",
        "structure": "expected Boundaries of one",
    }
    with pytest.raises(FormatError, match=rf"100075\.mat.*{message[damage]}"):
        list(BSDS500("train", dir=tmp_path))


def test_a_damaged_photograph_is_named(data, tmp_path, write_image):
    write_image(data / "images" / "train" / "8143.jpg", shape=(100, 100))
    with pytest.raises(FormatError, match=r"8143\.jpg: expected \(321, 481\) pixels, or transposed; found"):
        list(BSDS500("train", dir=tmp_path))
    (data / "images" / "train" / "8143.jpg").write_bytes(b"")
    with pytest.raises(FormatError, match=r"8143\.jpg"):
        list(BSDS500("train", dir=tmp_path))
