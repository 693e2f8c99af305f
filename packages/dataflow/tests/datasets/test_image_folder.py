"""Images in one folder per class."""

import contextlib
import os
import pickle
import tempfile
import threading
from itertools import repeat
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from towerpack_dataflow import ArgumentError, DatasetError, FormatError, MultiProcessRunner
from towerpack_dataflow.datasets import ImageFolder, ImageFolderFiles, Places365Standard
from towerpack_dataflow.testing import check_dataflow


@pytest.fixture
def folder(tmp_path, write_image):
    write_image(tmp_path / "cat" / "b.png")
    write_image(tmp_path / "cat" / "deeper" / "a.jpeg")
    write_image(tmp_path / "ant" / "c.bmp", colour=(0, 255, 0))
    return tmp_path


def test_the_sorted_folders_are_the_classes(folder):
    (folder / "cat" / "notes.txt").write_text("no image")
    (folder / "cat" / "._b.png").write_bytes(b"what macOS leaves")
    (folder / ".cache").mkdir()
    flow = ImageFolderFiles(folder, shuffle=False)
    expected = [["ant/c.bmp", 0], ["cat/b.png", 1], ["cat/deeper/a.jpeg", 1]]
    assert list(flow) == [[str(folder / name), label] for name, label in expected]
    assert flow.get_label_names() == ["ant", "cat"]
    check_dataflow(ImageFolderFiles(folder))


parts = st.sampled_from(
    ["a", "B", ".c", "ä", "d.jpg", "x.JPG", "y.png", ".z.png", "t.txt", "-.jpeg", "/.bmp"]
)
trees = st.dictionaries(st.lists(parts, min_size=1, max_size=4).map("/".join), st.booleans(), max_size=25)


@settings(max_examples=60, deadline=None)
@given(trees)
def test_the_files_are_those_of_a_walk(tree):
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory() as elsewhere:
        folder = Path(name)
        for path, link in tree.items():
            place = folder / "kind" / path
            with contextlib.suppress(OSError):  # a file has the name of a folder
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(elsewhere) if link else place.touch()
        (folder / "kind").mkdir(exist_ok=True)
        (folder / "kind" / "0.webp").touch()
        (folder / "kind" / "linked.gif").symlink_to(folder / "kind" / "0.webp")
        expected = []
        for parent, folders, files in os.walk(folder / "kind"):
            folders[:] = sorted(each for each in folders if each[0] != ".")
            expected += [f"{parent}/{each}" for each in sorted(files) if is_image(each)]
        assert [path for path, _ in ImageFolderFiles(folder, shuffle=False)] == expected


def test_a_folder_that_cannot_be_listed_is_an_error(folder, monkeypatch):
    listed = os.scandir

    def scandir(path):
        if str(path).endswith("deeper"):
            raise PermissionError(13, "Permission denied", path)
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(PermissionError, match="cat/deeper"):
        ImageFolderFiles(folder)


@pytest.mark.parametrize("waits", [False, True])
def test_folders_are_listed_in_threads_once_the_disk_is_waited_for(waits, tmp_path, monkeypatch):
    for name in "abcdef":
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.png").touch()
    scandir, used, together = os.scandir, [], threading.Barrier(4)

    def listed(path):
        used.append(threading.get_ident())
        if waits and str(path)[-2:] in {"/c", "/d", "/e", "/f"}:  # after the classes, and the first two
            together.wait(20)
        return scandir(path)

    seconds = iter([0, 0.01, 9]) if waits else repeat(0)
    monkeypatch.setattr("towerpack_dataflow.datasets._image_files.perf_counter", lambda: next(seconds))
    monkeypatch.setattr(os, "scandir", listed)
    flow = ImageFolderFiles(tmp_path, shuffle=False)
    assert list(flow) == [[f"{tmp_path}/{name}/0.png", label] for label, name in enumerate("abcdef")]
    assert set(used[:3]) == {threading.get_ident()}
    assert len(set(used)) == (5 if waits else 1)


def test_a_link_to_itself_hides_no_files(folder):
    (folder / "cat" / "loop").symlink_to("loop")
    assert len(ImageFolderFiles(folder)) == 3


def is_image(name):
    return name[0] != "." and name.lower().endswith((".jpg", ".jpeg", ".png", ".bmp", ".webp", ".gif"))


def test_images_are_rgb(folder):
    flow = ImageFolder(folder, shuffle=False)
    (green, _), (red, label), _ = list(flow)
    assert green.dtype == np.uint8 and green.shape == (8, 6, 3) and label == 1
    assert green[0, 0].tolist() == [0, 255, 0] and red[0, 0].tolist() == [200, 30, 90]
    assert flow.get_label_names() == pickle.loads(pickle.dumps(flow)).get_label_names() == ["ant", "cat"]
    check_dataflow(ImageFolder(folder))


@pytest.mark.slow
def test_workers_give_the_same_images(folder):
    flow = ImageFolder(folder)
    flow.seed(3)
    with MultiProcessRunner(ImageFolder(folder), num_workers=2) as parallel:
        parallel.seed(3)
        for one, other in zip(flow, parallel, strict=True):
            assert one[1] == other[1] and (one[0] == other[0]).all()


def grey(path):
    cv2.imwrite(str(path), np.full((8, 6), 77, np.uint8))


def cmyk(path):
    Image.new("RGB", (6, 8), (77, 77, 77)).convert("CMYK").save(path)


def png_under_another_name(path):
    path.write_bytes(cv2.imencode(".png", np.full((8, 6, 3), 77, np.uint8))[1].tobytes())


def with_transparency(path):
    path.write_bytes(cv2.imencode(".png", np.full((8, 6, 4), 77, np.uint8))[1].tobytes())


@pytest.mark.parametrize("write", [grey, cmyk, png_under_another_name, with_transparency])
def test_any_image_file_becomes_rgb(write, folder):
    path = folder / "ant" / "d.jpg"
    write(path)
    image = list(ImageFolder(folder, shuffle=False))[1][0]
    assert image.shape == (8, 6, 3) and np.abs(image.astype(int) - 77).max() <= 2


@pytest.mark.parametrize("content", [b"", b"<html>not found</html>", b"half"])
def test_a_damaged_image_is_named(content, folder):
    path = folder / "cat" / "deeper" / "a.jpeg"
    path.write_bytes(path.read_bytes()[:-60] if content == b"half" else content)
    with pytest.raises(FormatError, match=r"cat/deeper/a\.jpeg"):
        list(ImageFolder(folder))


def test_an_image_that_is_gone_is_named(folder):
    flow = ImageFolder(folder)
    (folder / "ant" / "c.bmp").unlink()
    with pytest.raises(FileNotFoundError, match=r"ant/c\.bmp"):
        list(flow)


def test_invalid_folders(tmp_path, folder):
    with pytest.raises(DatasetError, match=r"nowhere is missing, or is not a folder; pass a folder"):
        ImageFolder(tmp_path / "nowhere")
    with pytest.raises(DatasetError, match=r"cat/deeper has no subfolder; expected one per class"):
        ImageFolder(folder / "cat" / "deeper")
    (folder / "dog").mkdir()
    with pytest.raises(DatasetError, match=r"dog has no image; remove the folder if it is not a class"):
        ImageFolderFiles(folder)


def test_places(tmp_path, write_image):
    image = write_image(tmp_path / "a.jpg").read_bytes()
    for number in range(365):
        folder = tmp_path / "val" / f"place{number:03}"
        folder.mkdir(parents=True)
        (folder / "Places365_val_00000001.jpg").write_bytes(image)
    flow = Places365Standard(tmp_path, "val")
    assert len(flow) == 365 and flow.get_label_names()[364] == "place364"
    assert [label for _, label in flow] == list(range(365))
    with pytest.raises(DatasetError, match=r"train is missing"):
        Places365Standard(tmp_path, "train")
    (tmp_path / "val" / "place007").rename(tmp_path / "place007")
    with pytest.raises(DatasetError, match=r"has 364 classes, but 365 were expected; unpack http"):
        Places365Standard(tmp_path, "val")
    with pytest.raises(ArgumentError, match=r"name is 'train' or 'val'; received 'test'"):
        Places365Standard(tmp_path, "test")
