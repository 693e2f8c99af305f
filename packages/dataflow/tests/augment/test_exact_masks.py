"""Masks of any dtype and number of channels are moved exactly; coordinates keep their precision."""

import numpy as np
import pytest
from any_datapoints import few_examples
from hypothesis import given
from hypothesis import strategies as st

from towerpack_dataflow import ImageError, augment
from towerpack_dataflow.augment import AugmentImageComponents, WarpAffineTransform, drawing_from

HEIGHT, WIDTH = 24, 30
MOVING = [
    augment.Affine((0.8, 1.2), (0.1, 0.1), 20, 10),
    augment.Affine(rotate_max_deg=90, border=0),
    augment.AntialiasedResize((12, 40)),
    augment.CenterCrop((11, 20)),
    augment.CenterPaste((40, 33)),
    augment.Flip(horiz=True),
    augment.Flip(vert=True),
    augment.GaussianDeform([(0.2, 0.3), (0.7, 0.5)], (HEIGHT, WIDTH)),
    augment.GoogleNetRandomCropAndResize(target_shape=16),
    augment.Identity(),
    augment.RandomApplyAug(augment.Shift(0.2), 0.5),
    augment.RandomChooseAug([augment.Transpose(), augment.Resize(20)]),
    augment.RandomCrop((20, 11)),
    augment.RandomCropRandomShape(10, 8, 20, 20),
    augment.RandomErasing(prob=1),
    augment.RandomOrderAug([augment.Resize((30, 20)), augment.Flip(vert=True), augment.Brightness(20)]),
    augment.RandomPaste(40),
    augment.RandomResize((0.5, 1.5)),
    augment.Resize((40, 12)),
    augment.ResizeShortestEdge(40),
    augment.Rotation(20),
    augment.RotationAndCropValid(20),
    augment.Shift(0.2, 0.2),
    augment.Transpose(),
]
EVERY = pytest.mark.parametrize("augmentor", MOVING, ids=repr)
DTYPES = [np.dtype(code) for code in ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">i4", ">u8")]
CHANNELS = [None, 0, 1, 2, 3, 4, 5, 7, 129, 600]
SLANTED = np.array([[1, 0, 0.3], [0.05, 1, 0.4]])


def picture():
    return np.random.default_rng(0).integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)


def chosen(augmentor, seed):
    """Returns a transform of an augmentor, with all parts chosen."""
    with drawing_from(np.random.default_rng(seed)):
        transform = augmentor.get_transform(picture())
        transform.apply_image(picture())
        return transform


def mask_of(shape, dtype, seed=0):
    """Returns labels over the whole range of a dtype."""
    raw = np.random.default_rng(seed).integers(0, 256, (*shape, dtype.itemsize), np.uint8)
    return np.ascontiguousarray(raw).view(dtype)[..., 0] if dtype.kind != "b" else raw[..., 0] > 127


def moved_by_index(transform, mask):
    """Returns a mask moved by where each of its pixels goes; uint16 is exact in all versions of OpenCV."""
    places = np.arange(1, HEIGHT * WIDTH + 1, dtype=np.uint16).reshape(HEIGHT, WIDTH)
    source = transform.apply_mask(places).astype(int)
    flat = np.concatenate([np.zeros_like(mask[:1, 0]), mask.reshape(HEIGHT * WIDTH, *mask.shape[2:])])
    return flat[source]


@EVERY
@few_examples(12)
@given(dtype=st.sampled_from(DTYPES), channels=st.sampled_from(CHANNELS), seed=st.integers(0, 99))
def test_labels_are_moved_and_never_changed(augmentor, dtype, channels, seed):
    transform = chosen(augmentor, seed)
    mask = mask_of((HEIGHT, WIDTH) if channels is None else (HEIGHT, WIDTH, channels), dtype, seed)
    expected = moved_by_index(transform, mask)
    for layout in (mask, np.asfortranarray(mask), np.repeat(mask, 2, axis=1)[:, ::2]):
        result = transform.apply_mask(layout)
        assert result.dtype == dtype and np.array_equal(result, expected)


@EVERY
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "M8[s]", [("id", "i8"), ("part", "f4")]], ids=str)
def test_maps_of_other_dtypes_are_moved_alike(augmentor, dtype):
    transform = chosen(augmentor, 1)
    labels = np.zeros((HEIGHT, WIDTH), dtype)
    labels.reshape(-1)[:] = np.arange(HEIGHT * WIDTH).astype("i8" if isinstance(dtype, list) else dtype)
    result = transform.apply_mask(labels)
    assert result.dtype == labels.dtype and np.array_equal(result, moved_by_index(transform, labels))


@pytest.mark.parametrize("border", range(5))
def test_each_border_moves_labels_of_64_bits(border):
    mask = mask_of((5, 7), np.dtype("u8"))
    transform = WarpAffineTransform([[1, 0, 9], [0, 1, -3]], (12, 9), border_mode=border)
    places = np.arange(1, 36, dtype=np.uint16).reshape(5, 7)
    expected = np.concatenate([np.zeros(1, "u8"), mask.ravel()])[transform.apply_mask(places)]
    assert np.array_equal(transform.apply_mask(mask), expected)


@pytest.mark.parametrize(
    "augmentor",
    [
        augment.Affine(rotate_max_deg=20),
        augment.Rotation(20),
        augment.RotationAndCropValid(20),
        augment.Shift(0.2),
    ],
    ids=repr,
)
@pytest.mark.parametrize("channels", [0, 129])
def test_an_image_may_have_any_number_of_instances(augmentor, channels):
    below = [[picture(), np.ones((HEIGHT, WIDTH, channels), bool)]]
    ((image, masks),) = AugmentImageComponents(below, augmentor, (0,), masks_index=(1,))
    assert masks.shape == (*image.shape[:2], channels) and masks.dtype == bool


@pytest.mark.parametrize(
    "augmentor", [augment.Affine(rotate_max_deg=5), augment.GaussianDeform([(0, 0)], (2, 33000))]
)
def test_images_that_opencv_refuses_are_refused_by_name(augmentor):
    flow = AugmentImageComponents([{"picture": np.zeros((2, 33000))}], augmentor, ("picture",))
    with pytest.raises(
        ImageError,
        match=r"(?s)component 'picture': \w+\(.*OpenCV does not accept an image of shape \(2, 33000\)",
    ):
        list(flow)


@pytest.mark.parametrize(
    "transform",
    [augment.FlipTransform(4, 6), augment.TransposeTransform(), augment.ResizeTransform(4, 6, 2, 3),
     WarpAffineTransform(SLANTED, (6, 4))],
    ids=repr,
)  # fmt: skip
def test_integers_that_opencv_would_convert_are_refused(transform):
    image = np.full((4, 6), 2**40)
    try:
        result = transform.apply_image(image)
    except ImageError as error:
        assert "int64" in str(error) and type(transform).__name__ in str(error)
    else:
        assert result.dtype == np.int64 and set(np.unique(result)) <= {0, 2**40}
    assert set(np.unique(transform.apply_mask(image))) <= {0, 2**40}


def masked(array):
    return np.ma.array(array, mask=np.arange(array.size).reshape(array.shape) == 1)


@pytest.mark.parametrize("part", ["image", "coords", "boxes", "labels"])
def test_masked_values_are_refused(part):
    datapoint = {
        "image": picture(),
        "coords": np.ones((2, 2)),
        "boxes": np.ones((1, 4)),
        "labels": np.ones((HEIGHT, WIDTH), np.int64),
    }
    datapoint[part] = masked(datapoint[part])
    flow = AugmentImageComponents(
        [datapoint],
        augment.Flip(horiz=True),
        ("image",),
        ("coords",),
        boxes_index=("boxes",),
        masks_index=("labels",),
    )
    with pytest.raises(ImageError, match=f"component '{part}': .*received a masked array"):
        list(flow)


@pytest.mark.parametrize("changed", [lambda mask: mask.astype(np.float32), lambda mask: mask.astype(np.int32),
                                     lambda mask: mask.astype(np.float32).astype(mask.dtype)])  # fmt: skip
def test_labels_that_another_library_changes_are_refused(changed):
    labels = mask_of((HEIGHT, WIDTH), np.dtype("i8"))

    def library(image, mask=None):
        return {"image": image, "mask": None if mask is None else changed(mask)}

    flow = AugmentImageComponents(
        [[picture(), labels]], augment.Albumentations(library), (0,), masks_index=(1,)
    )
    with pytest.raises(
        ImageError, match=r"component 1: Albumentations.*labels of int64 were returned with other values"
    ):
        list(flow)


@EVERY
def test_coordinates_keep_the_precision_of_their_dtype(augmentor):
    if isinstance(augmentor, augment.GaussianDeform):
        return
    transform = chosen(augmentor, 3)
    points = np.array([[0.5, 3.25], [27.75, 11]])
    exact = transform.apply_coords(points)
    for dtype in (np.float16, np.float32, np.longdouble):
        moved = transform.apply_coords(points.astype(dtype))
        assert moved.dtype == dtype
        precision = max(np.finfo(dtype).eps, np.finfo(float).eps)
        assert np.abs(moved - exact).max() <= 2 * 64 * precision


def test_offsets_that_half_precision_does_not_hold_are_exact():
    points = np.array([[2052, 4100]], np.float16)
    assert augment.CropTransform(4099, 2049, 1, 1).apply_coords(points).tolist() == [[3, 1]]
    assert augment.FlipTransform(1, 2051).apply_coords(points).tolist() == [[-1, 4100]]


@pytest.mark.parametrize(
    "augmentor",
    [
        augment.RandomCutout(3, 3, fill=300),
        augment.RandomErasing(prob=1, fill=[0, -1, 0]),
        augment.CenterPaste(40, augment.ConstantBackgroundFiller([1, 2, 256])),
        augment.Shift(0.5, border=0, border_value=256),
        augment.Rotation(20, border=0, border_value=(0, 0, -1)),
    ],
    ids=repr,
)
def test_a_filling_value_that_pixels_do_not_hold_is_refused(augmentor):
    with pytest.raises(ImageError, match="is not from 0 to 255, and the image is of uint8"):
        augmentor.augment(picture())
    assert augmentor.augment(picture().astype(np.float32)).dtype == np.float32
