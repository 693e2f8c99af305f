"""Grids of images: each image is at its position, and nothing else is drawn."""

import sys

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from towerpack_dataflow import ArgumentError
from towerpack_dataflow.viz import gen_stack_patches, save_grid, stack_patches


@given(st.data())
def test_each_image_is_in_its_cell(data):
    rows, columns, border = (data.draw(st.integers(low, 4)) for low in (1, 1, 0))
    shapes = st.tuples(st.integers(1, 6), st.integers(1, 6), st.sampled_from([1, 3]))
    drawn = data.draw(st.lists(shapes, min_size=1, max_size=rows * columns))
    patches = [np.full(shape, number, np.uint8) for number, shape in enumerate(drawn)]
    height, width = (max(shape[axis] for shape in drawn) for axis in (0, 1))
    canvas = stack_patches(patches, rows, columns, border, pad=True, background=200)
    assert canvas.shape == (rows * (height + border) - border, columns * (width + border) - border, 3)
    for number, (tall, wide, _) in enumerate(drawn):
        assert np.sum(canvas == number) == tall * wide * 3
        ys, xs, _ = np.nonzero(canvas == number)
        assert set(ys // (height + border)) == {number // columns}
        assert set(xs // (width + border)) == {number % columns}
    assert np.sum(canvas == 200) == canvas.size - sum(tall * wide * 3 for tall, wide, _ in drawn)


def test_forms_of_images_and_backgrounds():
    grey, alpha = np.full((2, 3), 7.4), np.full((2, 3, 4), 9, np.uint8)
    canvas = stack_patches([grey, alpha], 1, 2, 1, background=(1, 2, 3))
    assert canvas[0].tolist() == [[7] * 3] * 3 + [[1, 2, 3]] + [[9] * 3] * 3
    assert stack_patches(np.zeros((2, 30, 20, 3)), 1, 2).shape == (30, 43, 3)


def test_pages_show_all():
    pages = list(gen_stack_patches(np.arange(7)[:, None, None], 2, 2, border=0))
    assert [np.unique(page).tolist() for page in pages] == [[0, 1, 2, 3], [4, 5, 6, 255]]


def test_a_grid_is_written_in_rgb(tmp_path):
    red = np.zeros((4, 4, 3), np.uint8)
    red[:, :, 0] = 255
    save_grid([red, np.zeros((2, 6))], tmp_path / "grid.png")
    assert cv2.imread(str(tmp_path / "grid.png"))[0, 1].tolist() == [0, 0, 255]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], 1, 1), "takes 1 to 1 images .*received 0"),
        ((np.zeros((3, 2, 2)), 1, 2), "received 3. gen_stack_patches makes several"),
        (([np.zeros((2, 2)), np.zeros((2, 3))], 1, 2), r"received \[\(2, 2\), \(2, 3\)\]. Set pad=True"),
        (
            ([np.zeros((2, 2, 2))], 1, 1),
            r"\[height, width, 1, 3 or 4\], of numbers; received shape \(2, 2, 2\)",
        ),
        (([np.zeros((0, 2))], 1, 1), "received shape"),
        (([np.full((2, 2), np.nan)], 1, 1), "values from 0 to 255; received values from nan"),
        (([np.full((2, 2), 256.0)], 1, 1), "received values from 256.0 to 256.0"),
        (([["a"]], 1, 1), "of <U1"),
        ((np.zeros((1, 2, 2)), 0, 1), "rows is an integer from 1 up"),
        ((np.zeros((1, 2, 2)), 1, 1, -1), "border is an integer from 0 up"),
        ((np.zeros((1, 2, 2)), 1, 1, 1, False, 300), "background is a grey level"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ArgumentError, match=message):
        stack_patches(*arguments)


@pytest.mark.parametrize("name", ["grid", "grid.txt", "grid.png.zip"])
def test_an_unknown_suffix_is_refused_and_leaves_no_file(name, tmp_path):
    with pytest.raises(ArgumentError, match="expected the extension of an image format"):
        save_grid(np.zeros((1, 2, 2)), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_without_opencv_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(ImportError, match=r"pip install 'towerpack-dataflow\[image\]'"):
        save_grid(np.zeros((1, 2, 2)), tmp_path / "grid.png")
