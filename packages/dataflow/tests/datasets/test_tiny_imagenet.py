"""Tiny ImageNet in its unpacked form."""

import numpy as np
import pytest

from towerpack_dataflow import ArgumentError, DatasetError, FormatError
from towerpack_dataflow.datasets import TinyImageNet
from towerpack_dataflow.testing import check_dataflow

SYNSETS = [f"n{number:08}" for number in range(200, 0, -1)]


@pytest.fixture
def tiny(tmp_path, write_image):
    image = write_image(tmp_path / "a.jpeg", shape=(64, 64)).read_bytes()

    def write(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(image)

    (tmp_path / "wnids.txt").write_text("\n".join(SYNSETS))
    (tmp_path / "words.txt").write_text(
        "n00000000\tentity\n" + "".join(f"{s}\tword of {s}\n" for s in SYNSETS)
    )
    for synset in SYNSETS:
        write(tmp_path / "train" / synset / "images" / f"{synset}_0.JPEG")
        (tmp_path / "train" / synset / f"{synset}_boxes.txt").write_text(f"{synset}_0.JPEG\t0\t1\t63\t58\n")
    for number in range(3):
        write(tmp_path / "val" / "images" / f"val_{number}.JPEG")
    rows = [f"val_{number}.JPEG\t{SYNSETS[number * 9]}\t0\t32\t44\t62\n" for number in range(3)]
    (tmp_path / "val" / "val_annotations.txt").write_text("".join(rows))
    return tmp_path


def test_images(tiny):
    flow = TinyImageNet(tiny, "val")
    images, labels = zip(*flow, strict=True)
    assert labels == (0, 9, 18) and images[0].shape == (64, 64, 3) and images[0].dtype == np.uint8
    assert flow.get_label_names()[9] == "word of n00000191"
    check_dataflow(flow)
    train = TinyImageNet(tiny, "train")
    assert len(train) == 200
    assert sorted(label for _, label in train.ds) == list(range(200))
    with pytest.raises(ArgumentError, match="name is 'train' or 'val'; received 'test'"):
        TinyImageNet(tiny, "test")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("wnids.txt", "n00000001\n", r"wnids\.txt has 1 lines, 1 of them distinct; expected 200"),
        ("wnids.txt", "n00000001\n" * 200, r"has 200 lines, 1 of them distinct"),
        ("val/val_annotations.txt", "val_0.JPEG n00000200\n", r"annotations\.txt, line 1: received 1 fields"),
        ("val/val_annotations.txt", "val_0.JPEG\tn00000200\t0\t0\t9\t9\n", r"images has 2 more, val_1\.JPEG"),
        ("val/val_annotations.txt", "", r"val_annotations\.txt is empty; unpack http"),
    ],
)
def test_a_damaged_list_is_named(name, content, message, tiny):
    (tiny / name).write_text(content)
    with pytest.raises(FormatError, match=message):
        TinyImageNet(tiny, "val")


def test_a_class_that_is_not_among_the_others(tiny):
    path = tiny / "val" / "val_annotations.txt"
    path.write_text(path.read_text().replace(SYNSETS[9], "n99999999"))
    with pytest.raises(FormatError, match=r"has the class n99999999, which wnids\.txt lacks"):
        TinyImageNet(tiny, "val")
    flow = TinyImageNet(tiny, "train")
    (tiny / "words.txt").write_text("n00000200\tone\n")
    with pytest.raises(FormatError, match=r"words\.txt lacks 199 classes, n00000199 among them"):
        flow.get_label_names()


def test_a_missing_file_is_named(tiny):
    (tiny / "val" / "images" / "val_1.JPEG").unlink()
    with pytest.raises(DatasetError, match=r"images lacks 1 of the 3 files in .*annotations\.txt, val_1"):
        TinyImageNet(tiny, "val")
    (tiny / "train" / "n00000007" / "n00000007_boxes.txt").unlink()
    with pytest.raises(DatasetError, match=r"n00000007_boxes\.txt is missing; unpack http"):
        TinyImageNet(tiny, "train")
    with pytest.raises(DatasetError, match=r"wnids\.txt is missing; unpack http.*MD5 90528d7"):
        TinyImageNet(tiny / "val", "train")
