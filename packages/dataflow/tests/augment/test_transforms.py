"""Transforms alone: user-defined ones, single functions, and lists of them."""

import pickle

import numpy as np
import pytest

from towerpack_dataflow import ArgumentError, ArgumentTypeError, UnsupportedTransformError
from towerpack_dataflow.augment import Transform, TransformFactory, TransformList

IMAGE = np.arange(12, dtype="u1").reshape(3, 4)
BOXES = np.float32([[0, 0, 2, 1], [1, 1, 4, 3]])


class Shift(Transform):
    """Moves to the right, as a class of the original's style is written."""

    def __init__(self, by, _unused=0):
        self._init(locals())

    def apply_image(self, img):
        return np.roll(img, self.by, axis=1)

    def apply_coords(self, coords):
        return coords + np.float32([self.by, 0])


class Swap(Transform):
    def apply_image(self, img):
        return img.T

    def apply_coords(self, coords):
        return coords[:, ::-1]

    def apply_mask(self, mask):
        return mask.T


def test_boxes_follow_their_corners():
    np.testing.assert_array_equal(Shift(2).apply_boxes(BOXES), BOXES + np.float32([2, 0, 2, 0]))
    np.testing.assert_array_equal(Swap().apply_boxes(BOXES), BOXES[:, [1, 0, 3, 2]])


def test_a_transform_shows_its_arguments():
    assert repr(Shift(2)) == "Shift(by=2)"
    assert repr(pickle.loads(pickle.dumps(Shift(2)))) == "Shift(by=2)"


@pytest.mark.parametrize("method", ["apply_mask", "apply_polygons"])
def test_undefined_methods_of_a_transform(method):
    with pytest.raises(UnsupportedTransformError, match=rf"Shift\(by=2\) has no {method}: define it"):
        getattr(Shift(2), method)(IMAGE)


@pytest.mark.parametrize("method", ["apply_image", "apply_coords", "apply_boxes", "apply_mask"])
def test_a_transform_that_defines_nothing(method):
    with pytest.raises(UnsupportedTransformError, match="define it"):
        getattr(Transform(), method)(BOXES)


def test_no_other_name_is_made_up():
    for transform in (Shift(2), TransformList([Shift(2)])):
        with pytest.raises(AttributeError, match="has no attribute 'colour'"):
            _ = transform.colour


def test_transforms_of_single_functions():
    brighter = TransformFactory("brighter", apply_image=lambda img: img + 1)
    np.testing.assert_array_equal(brighter.apply_image(IMAGE), IMAGE + 1)
    assert repr(brighter) == "TransformFactory(name='brighter')"
    with pytest.raises(UnsupportedTransformError, match=r"'brighter'.* has no apply_coords"):
        brighter.apply_coords(BOXES[:, :2])
    with pytest.raises(ArgumentError, match=r"functions apply_...=; received image="):
        TransformFactory(image=len)
    with pytest.raises(ArgumentError, match="received apply_image=3"):
        TransformFactory(apply_image=3)


def test_a_list_applies_all_in_order():
    both = TransformList([Shift(1)]) + Swap() + TransformList([Swap()])
    assert len(both) == 3 and isinstance(both[1], Swap)
    np.testing.assert_array_equal(both.apply_image(IMAGE), np.roll(IMAGE, 1, axis=1))
    np.testing.assert_array_equal(both.apply_coords(BOXES[:, :2]), BOXES[:, :2] + np.float32([1, 0]))
    np.testing.assert_array_equal(both.apply_boxes(BOXES), BOXES + np.float32([1, 0, 1, 0]))
    np.testing.assert_array_equal(TransformList([Swap(), Swap()]).apply_mask(IMAGE), IMAGE)
    with pytest.raises(UnsupportedTransformError, match=r"Shift.* has no apply_polygons"):
        both.apply_polygons([IMAGE])
    with pytest.raises(ArgumentTypeError, match="received 3"):
        TransformList([3])
