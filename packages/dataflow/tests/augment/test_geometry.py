"""Positions of pixels: images, coordinates, boxes and masks move together."""

import numpy as np
import pytest

from towerpack_dataflow import ArgumentError, ImageError, UnsupportedTransformError
from towerpack_dataflow.augment import (
    Affine,
    AntialiasedResize,
    AugmentorList,
    Brightness,
    CenterCrop,
    CenterPaste,
    Flip,
    GaussianDeform,
    GoogleNetRandomCropAndResize,
    Identity,
    MapImage,
    RandomApplyAug,
    RandomChooseAug,
    RandomCrop,
    RandomCropRandomShape,
    RandomCutout,
    RandomErasing,
    RandomOrderAug,
    RandomPaste,
    RandomResize,
    Resize,
    ResizeShortestEdge,
    Rotation,
    RotationAndCropValid,
    Shift,
    Transpose,
    drawing_from,
)

MOVES = [
    RandomCrop((30, 40)),
    CenterCrop(34),
    RandomCropRandomShape(36, 32),
    GoogleNetRandomCropAndResize(crop_area_fraction=(0.8, 1), target_shape=60),
    Flip(horiz=True, prob=1),
    Flip(vert=True, prob=1),
    Transpose(prob=1),
    Resize((80, 90)),
    AntialiasedResize(35),
    ResizeShortestEdge(60),
    RandomResize((0.8, 1.2), aspect_ratio_thres=0),
    CenterPaste((70, 80)),
    RandomPaste((70, 80)),
    Shift(0.1, 0.1),
    Rotation(20, center_range=(0.4, 0.6)),
    RotationAndCropValid(10),
    Affine((0.9, 1.1), (0.05, 0.05), 10, 5),
    Identity(),
    RandomApplyAug(Shift(0.1), 0.5),
    RandomChooseAug([Flip(horiz=True), (Shift(0.1))]),
    RandomOrderAug([Flip(horiz=True), Shift(0.1), Resize((60, 66))]),
    AugmentorList([Resize(64), RandomCrop(50), Flip(horiz=True)]),
]


def scene(dtype, channels):
    """A dark picture with a bright square centred at (30, 25)."""
    image = np.zeros((50, 60, *channels), dtype)
    image[22:28, 27:33] = 200
    return image


@pytest.mark.parametrize("augmentor", MOVES, ids=repr)
@pytest.mark.parametrize(
    ("dtype", "channels"), [(np.uint8, ()), (np.uint8, (1,)), (np.float32, (3,)), (np.uint8, (4,))]
)
def test_everything_moves_with_the_image(augmentor, dtype, channels):
    image = scene(dtype, channels)
    before = image.copy()
    with drawing_from(np.random.RandomState(3)):
        transform = augmentor.get_transform(image)
    result = transform.apply_image(image)
    assert result.dtype == dtype and result.shape[2:] == channels and (image == before).all()
    weights = result.reshape(*result.shape[:2], -1)[..., 0].astype(float)
    rows, columns = np.indices(weights.shape) + 0.5
    centre = np.array([(weights * columns).sum(), (weights * rows).sum()]) / weights.sum()
    np.testing.assert_allclose(transform.apply_coords(np.array([[30.0, 25.0]]))[0], centre, atol=0.35)
    box = transform.apply_boxes(np.array([[27.0, 22.0, 33.0, 28.0]]))[0]
    np.testing.assert_allclose((box[:2] + box[2:]) / 2, centre, atol=0.35)
    mask = transform.apply_mask((image.reshape(50, 60, -1)[..., 0] > 0).astype(np.int64))
    assert mask.shape == result.shape[:2] and set(np.unique(mask)) == {0, 1}
    assert ((mask == 1) == (weights > 100)).mean() > 0.98
    assert (transform.apply_image(image) == result).all()


def test_a_crop_reaches_the_last_row_and_column():
    corners = set()
    with drawing_from(np.random.RandomState(0)):
        for _ in range(60):
            transform = RandomCropRandomShape(2, 2, 2, 2).get_transform(np.zeros((3, 3), np.uint8))
            corners.add((transform.h0, transform.w0))
    assert corners == {(0, 0), (0, 1), (1, 0), (1, 1)}


def test_a_picture_too_narrow_for_any_part_is_cut_in_the_middle():
    augmentor = GoogleNetRandomCropAndResize(crop_area_fraction=(1, 1), target_shape=10)
    assert augmentor.augment(np.zeros((4, 100, 3), np.uint8)).shape == (10, 10, 3)


def test_rectangles_are_replaced_in_a_copy():
    image = np.full((40, 40, 3), 9, np.uint8)
    with drawing_from(np.random.RandomState(0)):
        cut = RandomCutout((5, 8), (5, 8), fill=200).augment(image)
        erased = RandomErasing(prob=1).augment(image)
    assert 25 <= (cut[..., 0] == 200).sum() <= 64 and (image == 9).all()
    assert 0.01 <= (erased != 9).mean() <= 0.45


def test_a_deformation_moves_images_and_masks():
    augmentor = GaussianDeform([(0.5, 0.5)], (50, 60), randrange=5)
    with drawing_from(np.random.RandomState(0)):
        transform = augmentor.get_transform(scene(np.uint8, (3,)))
    image, mask = transform.apply_image(scene(np.uint8, (3,))), transform.apply_mask(scene(np.uint8, ()))
    assert image.shape == (50, 60, 3) and set(np.unique(mask)) == {0, 200}
    labels = transform.apply_mask(np.where(scene(np.uint8, ()), 2**40 + 1, -1))
    assert np.array_equal(labels, np.where(mask, 2**40 + 1, -1))
    with pytest.raises(UnsupportedTransformError, match="has no apply_coords"):
        transform.apply_coords(np.zeros((1, 2)))


def test_the_largest_rectangle_lies_inside():
    assert RotationAndCropValid.largest_rotated_rect(100, 50, 90) == (50, 100)
    image = np.full((60, 80), 9, np.uint8)
    with drawing_from(np.random.RandomState(0)):
        assert (RotationAndCropValid(40).augment(image) == 9).all()


def test_functions_move_only_their_kind_of_data():
    transform = MapImage(np.flipud).get_transform(np.zeros((2, 2)))
    with pytest.raises(NotImplementedError, match=r"MapImage.* has no apply_coords: define it"):
        transform.apply_coords(np.zeros((1, 2)))


def test_a_lazily_chosen_transform_needs_the_image_first():
    transform = AugmentorList([Identity(), RandomCrop(2)]).get_transform(np.zeros((4, 4), np.uint8))
    with pytest.raises(ImageError, match="call apply_image before"):
        transform.apply_coords(np.zeros((1, 2)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RandomCrop(0), "crop_shape is an integer above 0, or two"),
        (lambda: Flip(), "either horiz=True or vert=True"),
        (lambda: RandomApplyAug(Identity(), 2), "prob is a number from 0 to 1; received 2"),
        (lambda: RandomChooseAug([(Identity(), 0.3)]), "sum to 1"),
        (lambda: Rotation(90, step_deg=7), "step_deg a divisor of 180"),
        (lambda: RandomResize((1, 2), (0.5, 1.0)), "both in pixels or both factors"),
        (lambda: Brightness(0), "delta is above 0"),
        (lambda: RandomCutout((5, 2), 3), "h_range is a pair"),
        (
            lambda: RandomCrop(9).augment(np.zeros((4, 9), np.uint8)),
            r"is smaller than \(9, 9\); resize it first",
        ),
        (lambda: CenterPaste(3).augment(np.zeros((4, 9), np.uint8)), "is larger than the background"),
    ],
)
def test_arguments_that_cannot_work_are_refused(make, message):
    with pytest.raises((ArgumentError, ImageError), match=message):
        make()
