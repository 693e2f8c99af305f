"""Random operations equal those of Pillow; mixtures of the images of a batch."""

import cv2
import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageOps

from towerpack_dataflow import BatchData, DataFromList, ImageError, MapData
from towerpack_dataflow.augment import (
    AugmentorList,
    CenterCrop,
    CutMix,
    MixUp,
    RandAugment,
    RandomMapImage,
    TrivialAugment,
    drawing_from,
)

NOISE = np.random.RandomState(1).randint(0, 256, (20, 30, 3)).astype(np.uint8)
IMAGE = np.clip(cv2.resize(NOISE, (60, 48), interpolation=cv2.INTER_CUBIC), 30, 210)
PILLOW = Image.fromarray(IMAGE)

# Of strength 15 of 30, with sign -1 or 1.
OPERATIONS = {
    "autocontrast": lambda sign: ImageOps.autocontrast(PILLOW),
    "brightness": lambda sign: ImageEnhance.Brightness(PILLOW).enhance(1 + 0.45 * sign),
    "color": lambda sign: ImageEnhance.Color(PILLOW).enhance(1 + 0.45 * sign),
    "contrast": lambda sign: ImageEnhance.Contrast(PILLOW).enhance(1 + 0.45 * sign),
    "equalize": lambda sign: ImageOps.equalize(PILLOW),
    "posterize": lambda sign: ImageOps.posterize(PILLOW, 6),
    "sharpness": lambda sign: ImageEnhance.Sharpness(PILLOW).enhance(1 + 0.45 * sign),
    "solarize": lambda sign: ImageOps.solarize(PILLOW, 128),
}


def drawn(seed):
    """The name of an operation, and its result for the image."""
    with drawing_from(np.random.RandomState(seed)):
        transform = RandAugment(num_ops=1, magnitude=15).get_transform(IMAGE)
        result = transform.apply_image(IMAGE)
    return repr(transform[0]), result


def test_operations_give_the_pictures_of_pillow():
    seen = set()
    for shown, result in map(drawn, range(120)):
        for name in (name for name in OPERATIONS if f"'{name}'" in shown):
            seen.add(name)
            expected = [np.asarray(OPERATIONS[name](sign)).astype(int) for sign in (-1, 1)]
            assert min(np.abs(result - each).max() for each in expected) <= 1, name
    assert seen == set(OPERATIONS)


@pytest.mark.parametrize("augmentor", [RandAugment(3, 20), RandAugment(2, 30), TrivialAugment()], ids=repr)
def test_policies_change_images_of_any_size(augmentor):
    changed = 0
    with drawing_from(np.random.RandomState(0)):
        for _ in range(60):
            result = augmentor.augment(IMAGE)
            assert result.shape == IMAGE.shape and result.dtype == np.uint8
            changed += bool((result != IMAGE).any())
    assert changed > 30
    with pytest.raises(ImageError, match="takes uint8 images; received float32"):
        augmentor.augment(IMAGE.astype(np.float32))


@pytest.mark.parametrize("mixing", [MixUp(4), CutMix(4)], ids=["mixup", "cutmix"])
def test_labels_are_mixed_as_images_are(mixing):
    pictures = [[np.full((8, 8, 1), 60 * n, np.float32), n] for n in range(4)]
    flow = MapData(BatchData(DataFromList(pictures, shuffle=False), 4), mixing, rng=True)
    flow.seed(1)
    ((images, labels),) = flow
    assert labels.dtype == np.float32 and np.allclose(labels.sum(axis=1), 1)
    np.testing.assert_allclose(images.mean((1, 2, 3)), labels @ (60 * np.arange(4)), rtol=1e-4)
    with pytest.raises(ImageError, match="labels are 2 integers below 4"):
        mixing([np.zeros((2, 8, 8, 1)), np.array([0, 4])], np.random.default_rng(0))


MASKED = np.ma.masked_equal(np.arange(16, dtype=np.float32).reshape(4, 2, 2), 3)


@pytest.mark.parametrize("mixing", [MixUp(4), CutMix(4)], ids=["mixup", "cutmix"])
@pytest.mark.parametrize(
    ("images", "labels"),
    [
        (MASKED, np.arange(4)),
        (list(MASKED), np.arange(4)),
        (MASKED.filled(0), np.ma.masked_equal(np.arange(4), 2)),
        (MASKED.filled(0), np.ma.masked_equal(np.eye(4, dtype=np.float32), 0)),
    ],
    ids=["images", "a list of images", "labels", "shares"],
)
def test_mixing_refuses_masks(mixing, images, labels):
    name = type(mixing).__name__
    with pytest.raises(ImageError, match=rf"^{name}: received a masked array, .* by x\.filled\(0\)"):
        mixing([images, labels], np.random.default_rng(0))


def test_mixing_takes_masked_arrays_without_a_masked_value():
    images, labels = np.zeros((4, 2, 2), np.uint8), np.arange(4)
    plain, unmasked = (
        MixUp(4)([make(images), make(labels)], np.random.default_rng(0))
        for make in (np.asarray, np.ma.asarray)
    )
    for one, other in zip(plain, unmasked):
        np.testing.assert_array_equal(one, other, strict=True)


def test_a_function_that_returns_a_masked_image_is_refused():
    masking = RandomMapImage(lambda image, rng: np.ma.masked_equal(image, 0))
    with pytest.raises(ImageError, match=r"RandomMapImage\(.*received a masked array"):
        masking.augment(np.zeros((2, 2), np.uint8))


@pytest.mark.parametrize("opencv_images", [False, True])
def test_a_list_checks_an_image_that_it_is_given_directly(opencv_images):
    augmentors = AugmentorList([CenterCrop(2)], opencv_images=opencv_images)
    with pytest.raises(ImageError, match="an image is a NumPy array; received list"):
        augmentors.get_transform([[1, 2]])
    labels = np.zeros((4, 4), np.int32)
    if not opencv_images:
        with pytest.raises(ImageError, match="received int32"):
            augmentors.get_transform(labels)
    else:
        assert augmentors.get_transform(labels).apply_image(labels).shape == (2, 2)
