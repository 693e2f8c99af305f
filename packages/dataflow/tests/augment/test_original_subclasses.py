"""Augmentors written for Tensorpack, as in its examples, run unchanged."""

import numpy as np
import pytest

from towerpack_dataflow import DataFromList, MultiProcessRunner, MultiThreadMapData
from towerpack_dataflow.augment import (
    AugmentImageComponent,
    AugmentImageComponents,
    CropTransform,
    Flip,
    ImageAugmentor,
    PhotometricAugmentor,
    RandomCrop,
    ResizeTransform,
    RotationAndCropValid,
    drawing_from,
)
from towerpack_dataflow.testing import check_dataflow

RNG = np.random.default_rng(0)


class CropMultiple16(ImageAugmentor):
    """As in the example HED: no constructor, and all chance by `self.rng`."""

    def get_transform(self, img):
        newh, neww = img.shape[0] // 16 * 16, img.shape[1] // 16 * 16
        diffh, diffw = img.shape[0] - newh, img.shape[1] - neww
        h0 = 0 if diffh == 0 else self.rng.randint(diffh)
        w0 = 0 if diffw == 0 else self.rng.randint(diffw)
        return CropTransform(h0, w0, newh, neww)


class CustomResize(ImageAugmentor):
    """As in the example Faster R-CNN: attributes by `_init(locals())`."""

    def __init__(self, short_edge_length, max_size, interp=1):
        super().__init__()
        self._init(locals())

    def get_transform(self, img):
        h, w = img.shape[:2]
        size = self.rng.randint(self.short_edge_length[0], self.short_edge_length[1] + 1)
        scale = min(size / min(h, w), self.max_size / max(h, w))
        return ResizeTransform(h, w, int(h * scale + 0.5), int(w * scale + 0.5), self.interp)


class Darker(PhotometricAugmentor):
    def _get_augment_params(self, img):
        return self._rand_range(0.2, 0.8)

    def _augment(self, img, factor):
        return (img * factor).astype(img.dtype)


def images(count=12):
    return [
        [RNG.integers(0, 256, (50, 70, 3), np.uint8), RNG.integers(0, 256, (50, 70), np.uint8)]
        for _ in range(count)
    ]


def hed():
    augmentors = [
        RotationAndCropValid(20),
        CropMultiple16(),
        CustomResize((20, 30), 60),
        Flip(horiz=True),
        Darker(),
    ]
    return AugmentImageComponents(DataFromList(IMAGES), augmentors, index=(0, 1))


IMAGES = images()


def values(flow, seed=3):
    flow.seed(seed)
    flow.reset_state()
    return [[part.tolist() for part in datapoint] for datapoint in flow]


def test_image_and_edges_stay_together():
    for image, edges in hed():
        assert image.shape[:2] == edges.shape


@pytest.mark.slow
def test_the_flow_keeps_all_promises_of_flows():
    check_dataflow(hed())


@pytest.mark.slow
def test_results_are_the_same_for_any_number_of_workers():
    expected = values(hed())
    for workers in (1, 2):
        with MultiProcessRunner(hed(), num_workers=workers) as flow:
            assert values(flow) == expected
    assert values(hed(), seed=4) != expected


def test_an_interrupted_pass_continues_with_the_same_numbers():
    flow = hed()
    flow.seed(3)
    iterator = iter(flow)
    for _ in range(5):
        next(iterator)
    state = flow.state_dict()
    rest = [part.tolist() for datapoint in iterator for part in datapoint]
    resumed = hed()
    resumed.load_state_dict(state)
    assert [part.tolist() for datapoint in resumed for part in datapoint] == rest


def test_each_epoch_has_different_numbers():
    flow = AugmentImageComponent(DataFromList(IMAGES, shuffle=False), RandomCrop(4))
    flow.seed(3)
    assert [image.tolist() for image, _ in flow] != [image.tolist() for image, _ in flow]


def test_functions_of_ones_own_draw_from_the_numbers_they_are_given():
    crop = RandomCrop(4)

    def func(datapoint, rng):
        with drawing_from(rng):
            return [crop.augment(datapoint[0])]

    def flow():
        return MultiThreadMapData(DataFromList(IMAGES, shuffle=False), 2, func, rng=True)

    with flow() as one, flow() as two:
        assert values(one) == values(two)


def test_the_trace_names_the_augmentors():
    assert "RandomCrop(crop_shape=(4, 4))" in str(AugmentImageComponent(IMAGES, RandomCrop(4)).trace(0))


def test_numbers_outside_of_flows_are_ones_own_and_can_be_set():
    crop = RandomCrop(4)
    crop.rng = np.random.RandomState(5)
    first = crop.augment(IMAGES[0][0])
    crop.rng = np.random.RandomState(5)
    assert (crop.augment(IMAGES[0][0]) == first).all()
    crop.reset_state()
    assert crop.rng is crop.rng


def test_the_old_interface_works_with_a_warning():
    class Old(ImageAugmentor):
        def _get_augment_params(self, img):
            return 3

        def _augment(self, img, number):
            return img[:number]

    with pytest.warns(DeprecationWarning, match="Old defines _augment; define get_transform"):
        assert Old().augment(IMAGES[0][0]).shape == (3, 70, 3)
