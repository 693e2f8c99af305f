"""ImageNet images in both layouts."""

import pickle

import numpy as np
import pytest

from towerpack_dataflow import ArgumentError, DatasetError, FormatError
from towerpack_dataflow.datasets import ILSVRC12, ILSVRC12Files, ILSVRCMeta
from towerpack_dataflow.testing import check_dataflow

TRAIN = [
    ("n00000003/n00000003_1.JPEG", 3),
    ("n00000003/n00000003_2.JPEG", 3),
    ("n00000001/n00000001_8.JPEG", 1),
]
VAL = [("ILSVRC2012_val_00000001.JPEG", 3), ("ILSVRC2012_val_00000002.JPEG", 999)]


@pytest.fixture
def sets(tmp_path, write_image):
    """A folder of the three sets, with their lists in `meta`."""
    meta = tmp_path / "meta"
    meta.mkdir()
    (meta / "synsets.txt").write_text("".join(f"n{number:08}\n" for number in range(1000)))
    (meta / "synset_words.txt").write_text("".join(f"n{number:08} word {number}\n" for number in range(1000)))
    for name, files in {"train": TRAIN, "val": VAL, "test": [("ILSVRC2012_test_1.JPEG", 0)]}.items():
        (meta / f"{name}.txt").write_text("".join(f"{file} {label}\n" for file, label in files))
        for number, (file, _) in enumerate(files):
            write_image(tmp_path / name / file, colour=(50 * number, 100, 200))
    return tmp_path


def files_of(sets, name, **options):
    return ILSVRC12Files(sets, name, meta_dir=sets / "meta", shuffle=False, **options)


def test_files(sets):
    assert list(files_of(sets, "train")) == [[str(sets / "train" / file), label] for file, label in TRAIN]
    assert list(files_of(sets, "val")) == [[str(sets / "val" / file), label] for file, label in VAL]
    assert [label for _, label in files_of(sets, "test")] == [0]
    flow = ILSVRC12Files(sets, "train", meta_dir=sets / "meta")
    assert flow.get_label_names()[3] == "word 3"
    check_dataflow(flow)


def test_the_layout_with_a_folder_for_each_class(sets):
    for file, label in VAL:
        path = sets / "val" / f"n{label:08}" / file
        path.parent.mkdir(exist_ok=True)
        (sets / "val" / file).rename(path)
    expected = [[str(sets / "val" / f"n{label:08}" / file), label] for file, label in VAL]
    assert list(files_of(sets, "val")) == list(files_of(sets, "val", dir_structure="train")) == expected
    with pytest.raises(DatasetError, match=r"val lacks 2 of the 2 files in .*meta/val\.txt, ILSVRC2012"):
        files_of(sets, "val", dir_structure="original")


def test_images(sets):
    flow = ILSVRC12(sets, "train", meta_dir=sets / "meta", shuffle=False)
    images, labels = zip(*flow, strict=True)
    assert labels == (3, 3, 1) and flow.get_label_names()[1] == "word 1"
    for number, image in enumerate(images):
        assert image.dtype == np.uint8 and np.abs(image.astype(int) - (50 * number, 100, 200)).max() <= 3
    shuffled = ILSVRC12(sets, "train", meta_dir=sets / "meta")
    check_dataflow(shuffled)
    assert len(pickle.loads(pickle.dumps(shuffled))) == 3


def test_files_that_differ_from_the_list(sets, write_image):
    write_image(sets / "train" / "n00000003" / "n00000003_9.jpeg")
    with pytest.raises(
        FormatError, match=r"train\.txt lists 3 files, but .*train has 1 more, n00000003/.*_9\.jpeg"
    ):
        files_of(sets, "train")
    (sets / "train" / "n00000003" / "n00000003_9.jpeg").unlink()
    (sets / "train" / TRAIN[1][0]).unlink()
    with pytest.raises(DatasetError, match=r"lacks 1 of the 3 files in .*train\.txt, n00000003/.*_2"):
        files_of(sets, "train")
    (sets / "train" / TRAIN[2][0]).unlink()
    (sets / "train" / "n00000001").rmdir()
    with pytest.raises(DatasetError, match=r"the folder .*train/n00000001 is missing"):
        files_of(sets, "train")
    (sets / "meta" / "val.txt").write_text(f"{VAL[0][0]} 3\n{VAL[0][0]} 4\n")
    with pytest.raises(FormatError, match=r"val\.txt lists 2 files, some of them twice"):
        files_of(sets, "val")


def test_sets_that_there_are_not(sets, tmp_path):
    with pytest.raises(ArgumentError, match="name is 'train' or 'val' or 'test'; received 'dev'"):
        ILSVRC12(sets, "dev")
    with pytest.raises(ArgumentError, match="dir_structure is"):
        files_of(sets, "val", dir_structure="flat")
    with pytest.raises(DatasetError, match=r"the folder .*nowhere/val is missing"):
        ILSVRC12(tmp_path / "nowhere", "val", meta_dir=sets / "meta")


def test_a_damaged_image_is_named(sets):
    (sets / "val" / VAL[0][0]).write_bytes(b"\xff\xd8\xff\xe0 half of an image")
    with pytest.raises(FormatError, match=VAL[0][0]):
        list(ILSVRC12(sets, "val", meta_dir=sets / "meta"))


BOXES = """<annotation><size><width>500</width></size>
<object><bndbox><xmin>13</xmin><ymin>22</ymin><xmax>465</xmax><ymax>374</ymax></bndbox></object>
<object><bndbox><xmin>1</xmin><ymin>2</ymin><xmax>3</xmax><ymax>4</ymax></bndbox></object></annotation>"""


def test_boxes(sets):
    path = sets / "boxes" / "train" / "n00000003" / "n00000003_2.xml"
    path.parent.mkdir(parents=True)
    path.write_text(BOXES)
    listed = ILSVRCMeta(sets / "meta").get_image_list("train")
    none, boxes, other = ILSVRC12.get_training_bbox(sets / "boxes", listed)
    assert none is other is None and boxes.dtype == np.float32
    assert boxes.tolist() == [[13, 22, 465, 374], [1, 2, 3, 4]]
    for damaged in (BOXES[:-30], BOXES.replace("ymax", "y"), BOXES.replace("465", "wide")):
        path.write_text(damaged)
        with pytest.raises(
            FormatError, match=r"n00000003_2\.xml is damaged .*expected bndbox with xmin, ymin"
        ):
            ILSVRC12.get_training_bbox(sets / "boxes", listed)
