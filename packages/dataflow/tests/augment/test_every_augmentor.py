"""One table of all augmentors; each test runs over all of them."""

import inspect

import cv2
import numpy as np
import pytest

from towerpack_dataflow import (
    DataFromList,
    ImageError,
    MultiProcessRunner,
    UnsupportedTransformError,
    augment,
)
from towerpack_dataflow.augment import AugmentImageComponents, Identity, drawing_from

HEIGHT, WIDTH = 24, 30
ANY = (None, 1, 3, 4)


class Brighter:
    """A transform as Albumentations has them."""

    def set_random_seed(self, seed):
        self.amount = np.random.default_rng(seed).uniform(0.5, 1)

    def __call__(self, image, mask=None):
        changed = {"image": (image * self.amount).astype(image.dtype)}
        return changed if mask is None else changed | {"mask": mask}


class Row:
    """An augmentor of the table, and its properties.

    Args:
        augmentor: the augmentor.
        channels: which images it takes; None stands for shape [height, width].
        dtypes: which dtypes it takes.
        stated: `out`, channels of the result, and `dtype` of the result, where they are others; `bounds` of
            its values, for images from 0 to 255; which of `coords` and `mask` it `moves`.
    """

    def __init__(self, augmentor, channels=ANY, dtypes=(np.uint8, np.float32), **stated):
        self.augmentor, self.channels, self.dtypes = augmentor, channels, dtypes
        self.stated = {"out": "same", "dtype": None, "bounds": (0, 255), "moves": ("coords", "mask")} | stated


COLOUR = {"channels": (3,)}
FREE = {"bounds": (-np.inf, np.inf)}
TABLE = [
    Row(augment.Affine((0.8, 1.2), (0.1, 0.1), 20, 10)),
    Row(augment.Albumentations(Brighter()), moves=("mask",)),
    Row(augment.AntialiasedResize((12, 40))),
    Row(augment.AugmentorList([augment.RandomCrop(20), augment.Flip(horiz=True), augment.Brightness(9)])),
    Row(augment.Brightness(40)),
    Row(augment.BrightnessScale((0.5, 1.5))),
    Row(augment.CenterCrop((11, 20))),
    Row(augment.CenterPaste((40, 33))),
    Row(augment.Clip(10, 90), bounds=(10, 90)),
    Row(augment.ColorSpace(cv2.COLOR_RGB2GRAY), channels=(3, 4), out=1),
    Row(augment.Contrast((0.5, 1.5))),
    Row(augment.Contrast((0.5, 1.5), rgb=True), **COLOUR),
    Row(augment.Flip(horiz=True)),
    Row(augment.Flip(vert=True)),
    Row(augment.Gamma()),
    Row(augment.GaussianBlur((1, 3))),
    Row(augment.GaussianDeform([(0.2, 0.3), (0.7, 0.5)], (HEIGHT, WIDTH)), moves=("mask",)),
    Row(augment.GaussianNoise(20)),
    Row(augment.GoogleNetRandomCropAndResize(target_shape=16)),
    Row(augment.Grayscale(), out=1, **COLOUR),
    Row(augment.Grayscale(keepdims=False), out=None, **COLOUR),
    Row(augment.Grayscale(keepshape=True), **COLOUR),
    Row(augment.Hue(), **COLOUR),
    Row(augment.Identity()),
    Row(augment.JpegNoise(), channels=(None, 1, 3)),
    Row(augment.Lighting(9, [0.2, 0.5, 1], np.eye(3)), **COLOUR),
    Row(augment.MapImage(np.negative), moves=(), **FREE),
    Row(augment.MeanVarianceNormalize(), dtype=np.float32, **FREE),
    Row(augment.MeanVarianceNormalize(all_channel=False), dtype=np.float32, **FREE),
    Row(augment.MinMaxNormalize(), dtype=np.float32, bounds=(0, 255.001)),
    Row(augment.MinMaxNormalize(0, 1, all_channel=False), dtype=np.float32, bounds=(0, 1.001)),
    Row(augment.Normalize(120, 60), dtype=np.float32, **FREE),
    Row(augment.Normalize([1, 2, 3], [4, 5, 6]), dtype=np.float32, **COLOUR, **FREE),
    Row(augment.RandAugment(3, 20), dtypes=(np.uint8,), **COLOUR),
    Row(augment.RandomApplyAug(augment.Shift(0.2), 0.5)),
    Row(augment.RandomChooseAug([augment.Transpose(), augment.Resize(20)])),
    Row(augment.RandomCrop((20, 11))),
    Row(augment.RandomCropRandomShape(10, 8, 20, 20)),
    Row(augment.RandomCutout((3, 6), 5, fill=7)),
    Row(augment.RandomErasing(prob=1)),
    Row(augment.RandomMapImage(lambda image, rng: image[rng.randint(9) :]), moves=()),
    Row(augment.RandomOrderAug([augment.Resize((30, 20)), augment.Brightness(20)])),
    Row(augment.RandomPaste(40)),
    Row(augment.RandomResize((0.5, 1.5))),
    Row(augment.Resize((40, 12))),
    Row(augment.ResizeShortestEdge(40)),
    Row(augment.Rotation(20)),
    Row(augment.RotationAndCropValid(20)),
    Row(augment.SaltPepperNoise()),
    Row(augment.Saturation(), **COLOUR),
    Row(augment.Shift(0.2, 0.2)),
    Row(augment.ToFloat32(), dtype=np.float32),
    Row(augment.ToUint8(), dtype=np.uint8),
    Row(augment.Transpose()),
    Row(augment.TrivialAugment(), dtypes=(np.uint8,), **COLOUR),
]
EVERY = pytest.mark.parametrize("row", TABLE, ids=[repr(row.augmentor).partition("(")[0] for row in TABLE])


def picture(channels, dtype, seed=0):
    shape = (HEIGHT, WIDTH) if channels is None else (HEIGHT, WIDTH, channels)
    return np.random.default_rng(seed).integers(0, 256, shape).astype(dtype)


def chosen(row, image, seed):
    with drawing_from(np.random.default_rng(seed)):
        transform = row.augmentor.get_transform(image)
        return transform, transform.apply_image(image)


def test_the_table_has_all():
    shipped = {
        name
        for name in augment.__all__
        if inspect.isclass(each := getattr(augment, name)) and issubclass(each, augment.ImageAugmentor)
    }
    listed = {type(row.augmentor).__name__ for row in TABLE}
    assert shipped - listed == {"Augmentor", "ImageAugmentor", "PhotometricAugmentor"}


def test_all_say_that_they_do_not_write_to_images():
    silent = {type(row.augmentor).__name__ for row in TABLE if row.augmentor._may_write()}
    assert silent == {"Albumentations", "Identity", "MapImage", "RandomMapImage"}


@EVERY
def test_shapes_dtypes_and_values_of_images(row):
    for channels in row.channels:
        for dtype in row.dtypes:
            image = picture(channels, dtype)
            before = image.copy()
            for seed in range(3):
                transform, result = chosen(row, image, seed)
                case = f"{dtype.__name__}, {channels} channels, {result.dtype} of shape {result.shape}"
                expected = channels if row.stated["out"] == "same" else row.stated["out"]
                assert result.shape[2:] == (() if expected is None else (expected,)), case
                assert result.dtype == (row.stated["dtype"] or dtype), case
                low, high = row.stated["bounds"]
                assert np.isfinite(result).all() and low <= result.min() and result.max() <= high, case
                assert (image == before).all(), case
                assert (transform.apply_image(image) == result).all(), case
                assert (chosen(row, image, seed)[1] == result).all(), case


@EVERY
def test_shapes_dtypes_and_values_of_annotations(row):
    points = np.array([[0.5, 0.5], [3, 20], [29.5, 9]])
    boxes = np.array([[1, 2, 9.5, 20], [0, 0, WIDTH, HEIGHT]], np.float32)
    mask = (np.random.default_rng(2).integers(0, 3, (HEIGHT, WIDTH)) * 100).astype(np.int32)
    image = picture(row.channels[-1], row.dtypes[0])
    for seed in range(3):
        transform, result = chosen(row, image, seed)
        if "coords" in row.stated["moves"]:
            for dtype in (np.float32, np.float64):
                moved = transform.apply_coords(points.astype(dtype))
                assert moved.shape == (3, 2) and moved.dtype == dtype and np.isfinite(moved).all()
            around = transform.apply_boxes(boxes)
            assert around.shape == (2, 4) and around.dtype == np.float32
            assert (around[:, :2] <= around[:, 2:]).all()
            assert transform.apply_coords(points[:0]).shape == (0, 2)
            assert transform.apply_boxes(boxes[:0]).shape == (0, 4)
        else:
            with pytest.raises(UnsupportedTransformError, match="has no apply_coords"):
                transform.apply_coords(points)
        if "mask" in row.stated["moves"]:
            for dtype in (bool, np.uint8, np.int32, np.int64):
                labels = transform.apply_mask(mask.astype(dtype))
                assert labels.shape == result.shape[:2] and labels.dtype == dtype
                assert set(np.unique(labels)) <= {0, *np.unique(mask.astype(dtype))}
        else:
            with pytest.raises(UnsupportedTransformError, match="has no apply_mask"):
                transform.apply_mask(mask)
    assert points[0, 0] == 0.5 and mask.max() == 200


@EVERY
def test_images_that_are_not_taken_are_refused_by_name(row):
    name = type(row.augmentor).__name__
    wrong = [
        picture(2, np.uint8),
        picture(3, np.int32),
        picture(3, np.float16),
        picture(3, np.uint8)[:0],
        np.full((HEIGHT, WIDTH, 3), np.nan, np.float32),
        picture(3, np.uint8).tolist(),
        *(picture(channels, np.uint8) for channels in ANY if channels not in row.channels),
        *(picture(3, dtype) for dtype in (np.float32,) if dtype not in row.dtypes),
    ]
    for image in wrong:
        with pytest.raises(ImageError, match=name):
            row.augmentor.augment(image)


def flow_of_all():
    """A flow with a separate component for each augmentor."""
    pictures = {
        f"{place} {type(row.augmentor).__name__}": picture(row.channels[-1], row.dtypes[0], seed=place)
        for place, row in enumerate(TABLE)
    }
    flow = DataFromList([{**pictures, "number": number} for number in range(6)], shuffle=True)
    for name, row in zip(pictures, TABLE, strict=True):
        flow = AugmentImageComponents(flow, row.augmentor, (name,))
    flow.seed(5)
    return flow


def same(ours, theirs):
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        for name in one:
            np.testing.assert_array_equal(one[name], other[name], err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_images_are_the_same_for_any_number_of_workers(workers):
    with MultiProcessRunner(flow_of_all(), num_workers=workers) as flow:
        flow.seed(5)
        same(list(flow), list(flow_of_all()))


@pytest.mark.slow
def test_images_are_the_same_after_a_resume():
    flow = flow_of_all()
    iterator = iter(flow)
    next(iterator), next(iterator)
    resumed = flow_of_all()
    resumed.load_state_dict(flow.state_dict())
    same(list(resumed), list(iterator))
    same(list(resumed), list(flow))


def test_results_share_no_memory_with_the_flow_below():
    image = picture(3, np.uint8)
    for augmentor in (Identity(), augment.CenterCrop(9), augment.Flip(horiz=True, prob=0), augment.Gamma()):
        ((result,),) = AugmentImageComponents([[image]], augmentor, (0,))
        assert not np.may_share_memory(result, image)
        ((result,),) = AugmentImageComponents([[image]], augmentor, (0,), copy=False)
        assert np.may_share_memory(result, image) == (not isinstance(augmentor, augment.Gamma))
