"""Boxes, text, colours, windows, and the images of a flow as files."""

import sys

import cv2
import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.backend_bases import KeyEvent, MouseEvent

from towerpack_dataflow import ArgumentError, ArgumentTypeError, BatchData, ComponentError, DataFromList
from towerpack_dataflow.viz import (
    PALETTE_RGB,
    draw_boxes,
    draw_text,
    dump_dataflow_images,
    intensity_to_rgb,
    interactive_imshow,
)

BLACK = np.zeros((40, 60), np.uint8)


def test_the_palette_has_80_colours():
    assert PALETTE_RGB.shape == (80, 3) and len({tuple(color) for color in PALETTE_RGB.tolist()}) == 80


def test_a_box_is_drawn_where_it_is():
    before = np.zeros((40, 60, 3), np.uint8)
    drawn = draw_boxes(before, [[10, 5, 30, 20]], color=(255, 0, 0))
    ys, xs = np.nonzero(drawn[:, :, 0] == 255)
    assert (ys.min(), ys.max(), xs.min(), xs.max()) == (5, 20, 10, 30)
    assert not drawn[6:20, 11:30].any() and not drawn[:, :, 1:].any() and not before.any()


def test_boxes_of_one_label_have_one_colour():
    drawn = draw_boxes(BLACK, [[0, 20, 9, 39], [20, 20, 29, 39], [50, 20, 59, 99]], ["cat", "dog", "cat"])
    assert (
        drawn[38, 0].tolist() == drawn[38, 50].tolist() == PALETTE_RGB[0].tolist() != drawn[38, 20].tolist()
    )
    assert (draw_boxes(BLACK, np.zeros((0, 4))) == 0).all()


@pytest.mark.parametrize("position", [(0, 0), (1000, 1000), (-5.5, 20)])
def test_words_stay_inside_the_image(position):
    whole, cut = draw_text(BLACK, position, "cat", scale=0.4), draw_text(BLACK, (20, 20), "cat", scale=0.4)
    assert np.sum(whole) == np.sum(cut) > 0


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: draw_boxes(BLACK, [[0, 0, 1]]), r"shape \[number, 4\]; received shape \(1, 3\)"),
        (lambda: draw_boxes(BLACK, [0, 0, 1, 1]), r"received shape \(4,\)"),
        (lambda: draw_boxes(BLACK, [[0, 0, 1, 1], [5, 0, 1, 1]]), r"boxes\[1\] is \[5.0, 0.0, 1.0, 1.0\]"),
        (lambda: draw_boxes(BLACK, [[0, 0, 1, np.nan]]), r"boxes\[0\] is"),
        (lambda: draw_boxes(BLACK, [[0, 0, 1, 1]], []), "there are 1 boxes, but 0 labels"),
        (lambda: draw_text(BLACK, (1, np.inf), "a"), "position is a pair of numbers"),
        (lambda: draw_text(np.zeros(3), (1, 1), "a"), "draw_text takes images of shape"),
        (lambda: intensity_to_rgb(np.zeros(3)), r"received shape \(3,\)"),
        (lambda: intensity_to_rgb(np.array([[0, np.nan]])), "1 values that are NaN"),
        (lambda: intensity_to_rgb(BLACK, "no such"), "colormap='no such'"),
    ],
)
def test_wrong_arguments_are_refused(draw, message):
    with pytest.raises(ArgumentError, match=message):
        draw()


def test_intensities_become_colours_from_dark_to_light():
    colors = intensity_to_rgb(np.array([[-1, 0, 0.5, 1, 7]]))
    assert colors.dtype == np.float32 and colors.shape == (1, 5, 3)
    assert (colors[0, :2] == 0).all() and (colors[0, 3:] == 255).all() and 0 < colors[0, 2].mean() < 255
    grey = intensity_to_rgb(np.array([[5, 10]]), "gray", normalize=True)
    assert grey.tolist() == [[[0] * 3, [255] * 3]]
    assert (intensity_to_rgb(np.ones((2, 2)), "gray", normalize=True) == 0).all()


def test_a_window_answers_clicks_and_keys(monkeypatch):
    mpl.use("agg")
    seen = []

    def act(block):
        canvas = pyplot.gcf().canvas
        x, y = pyplot.gca().transData.transform((7, 3))
        MouseEvent("button_press_event", canvas, x, y, 1)._process()
        MouseEvent("button_press_event", canvas, x, y, 3)._process()
        KeyEvent("key_press_event", canvas, "a")._process()
        KeyEvent("key_press_event", canvas, "q")._process()

    monkeypatch.setattr(pyplot, "show", act)
    key = interactive_imshow(
        BLACK, lambda _, x, y: seen.append((x, y)), a=lambda image: seen.append(image.shape)
    )
    assert seen == [(7, 3), (40, 60, 3)] and key == "q" and not pyplot.get_fignums()
    with pytest.raises(ArgumentTypeError, match="on_left_click is a function; received 5"):
        interactive_imshow(BLACK, 5)


def test_the_images_of_a_flow_become_files(tmp_path):
    flow = DataFromList([[number, np.full((4, 4), number / 10)] for number in range(5)], shuffle=False)
    paths = dump_dataflow_images(BatchData(flow, 2), tmp_path / "new", index=1, number=3, scale=255)
    assert [path.rsplit("/", 1)[1] for path in paths] == ["0000.png", "0001.png", "0002.png"]
    assert [cv2.imread(path)[0, 0, 0] for path in paths] == [0, 26, 51]
    assert len(dump_dataflow_images(flow, tmp_path / "new", index=1, scale=1000, batched=False)) == 5
    bright = [[np.full((1, 2), 200, np.uint8)]]
    (path,) = dump_dataflow_images(bright, tmp_path / "bright", index=0, scale=2, batched=False)
    assert cv2.imread(path)[0, 0, 0] == 255
    with pytest.raises(ComponentError, match="index=2: the datapoints of the flow have no such component"):
        dump_dataflow_images(flow, tmp_path, index=2, batched=False)


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'towerpack-dataflow\[viz\]'"):
        intensity_to_rgb(BLACK)
