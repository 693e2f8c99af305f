"""Pixel values: Tensorpack's formulas, reimplemented in NumPy, and their fixes."""

import importlib.util
from pathlib import Path

import cv2
import numpy as np
import pytest

from towerpack_dataflow import ImageError
from towerpack_dataflow.augment import (
    Brightness,
    BrightnessScale,
    Clip,
    ColorSpace,
    Contrast,
    Gamma,
    GaussianBlur,
    GaussianNoise,
    Grayscale,
    Hue,
    JpegNoise,
    Lighting,
    MeanVarianceNormalize,
    MinMaxNormalize,
    Normalize,
    SaltPepperNoise,
    Saturation,
    ToFloat32,
    ToUint8,
    drawing_from,
)

GOLDEN = Path(__file__).parent / "golden"


def load_formulas():
    spec = importlib.util.spec_from_file_location("golden_formulas", GOLDEN / "formulas.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


formulas = load_formulas()
IMAGE = formulas.IMAGE
AUGMENTORS = {
    "Brightness": Brightness(50),
    "BrightnessScale": BrightnessScale((0.5, 1.5)),
    "Contrast": Contrast((0.5, 1.5)),
    "Contrast of grey": Contrast((0.5, 1.5), rgb=True),
    "Gamma": Gamma(),
    "GaussianBlur": GaussianBlur(),
    "GaussianNoise": GaussianNoise(20),
    "Grayscale": Grayscale(),
    "Hue": Hue(),
    "Lighting": Lighting(30, formulas.STRENGTHS, formulas.AXES),
    "MeanVarianceNormalize": MeanVarianceNormalize(),
    "MeanVarianceNormalize of channels": MeanVarianceNormalize(all_channel=False),
    "MinMaxNormalize": MinMaxNormalize(),
    "SaltPepperNoise": SaltPepperNoise(),
    "Saturation": Saturation(),
}


def run(augmentor, image, seed=7):
    with drawing_from(np.random.RandomState(seed)):
        return augmentor.augment(image)


def test_the_golden_pictures_are_those_of_the_formulas():
    with np.load(formulas.PICTURES) as golden:
        expected = formulas.pictures()
        assert set(golden) == set(expected)
        for name, picture in expected.items():
            np.testing.assert_allclose(golden[name], picture, rtol=1e-5, atol=1e-4, err_msg=name)


@pytest.mark.parametrize("name", AUGMENTORS)
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_defaults_give_the_golden_pictures(name, dtype):
    image = IMAGE.astype(dtype)
    result = run(AUGMENTORS[name], image, formulas.SEED)
    with np.load(formulas.PICTURES) as golden:
        expected = golden[f"{name}, {dtype.__name__}"]
    assert result.dtype == expected.dtype and result.shape == expected.shape
    # A level: OpenCV rounds grey and saturation, and fractions near a whole number differ.
    tolerance = 1 if result.dtype == np.uint8 else 0.01
    assert np.abs(result.astype(float) - expected).max() <= tolerance
    assert (image == IMAGE).all()


def test_hue_turns_the_circle():
    red = np.full((2, 2, 3), (200, 0, 0), np.uint8)
    assert run(Hue((60, 60)), red)[0, 0].tolist() == [0, 200, 0]
    np.testing.assert_allclose(run(Hue((60, 60)), red.astype(np.float32))[0, 0], [0, 200, 0], atol=1e-3)
    assert run(Hue((60, 60), rgb=False), red)[0, 0].tolist() == [0, 0, 200]


def test_normalised_images_have_the_mean_and_the_spread_asked_for():
    whole, each = run(MeanVarianceNormalize(), IMAGE), run(MeanVarianceNormalize(all_channel=False), IMAGE)
    assert whole.dtype == np.float32 and abs(whole.mean()) < 1e-5 and abs(whole.std() - 1) < 1e-5
    assert np.abs(each.mean((0, 1))).max() < 1e-5
    assert (run(MeanVarianceNormalize(), np.full((4, 4), 9, np.uint8)) == 0).all()
    spread = run(MinMaxNormalize(-1, 1), IMAGE)
    assert (spread.min(), spread.max()) == (-1, 1)
    assert (run(MinMaxNormalize(-1, 1), np.full((4, 4), 9, np.uint8)) == -1).all()
    np.testing.assert_allclose(
        run(Normalize([1, 2, 3], [4, 5, 6]), IMAGE), (IMAGE - np.float32([1, 2, 3])) / [4, 5, 6], rtol=1e-5
    )


def test_blur_draws_a_window_and_keeps_shapes():
    for shape in ((9, 7), (9, 7, 1), (9, 7, 3), (9, 7, 4)):
        image = np.zeros(shape, np.uint8)
        image[4, 3] = 200
        assert run(GaussianBlur((2, 3)), image).shape == shape
    expected = cv2.GaussianBlur(IMAGE, (5, 5), 0, borderType=cv2.BORDER_REPLICATE)
    assert (run(GaussianBlur((2, 3)), IMAGE) == expected).all()
    assert GaussianBlur(3).size_range == GaussianBlur((0, 3)).size_range


@pytest.mark.parametrize("shape", [(9, 7), (9, 7, 1), (9, 7, 3)])
def test_noise_of_jpeg_keeps_channels(shape):
    assert run(JpegNoise(), np.zeros(shape, np.float32)).shape == shape


def test_salt_and_pepper_are_shares_of_the_values():
    result = run(SaltPepperNoise(0.2, 0.3), np.full((100, 100, 3), 9, np.uint8))
    assert abs((result == 255).mean() - 0.2) < 0.02 and abs((result == 0).mean() - 0.3) < 0.02


def test_conversions():
    assert run(Grayscale(rgb=True), IMAGE).shape == (9, 7, 1)
    assert run(Grayscale(keepdims=False), IMAGE).shape == (9, 7)
    assert run(Grayscale(keepshape=True), IMAGE).shape == (9, 7, 3)
    assert (run(ColorSpace(cv2.COLOR_RGB2BGR), IMAGE) == IMAGE[..., ::-1]).all()
    assert run(ToUint8(), np.float32([[-3.0, 1.9, 300]])).tolist() == [[0, 1, 255]]
    assert run(ToFloat32(), IMAGE).dtype == np.float32
    assert run(Clip(10, 20), IMAGE).max() == 20


@pytest.mark.parametrize(
    ("augmentor", "image", "message"),
    [
        (Hue(), IMAGE[..., :1], r"Hue\(\): takes images of 3 channels; received shape \(9, 7, 1\)"),
        (Saturation(), np.zeros((4, 4, 4), np.uint8), r"Saturation\(\): takes images of 3 channels"),
        (
            Gamma(),
            np.full((4, 4), -1.0),
            r"Gamma\(\): takes values from 0 to 255; received values from -1 to -1",
        ),
        (SaltPepperNoise(), np.full((4, 4), 256.0), "SaltPepperNoise.*Put it before a normalisation"),
        (JpegNoise(), np.zeros((4, 4, 4), np.uint8), "JPEG has 1 or 3 channels"),
        (ColorSpace(cv2.COLOR_RGB2HSV), IMAGE[..., 0], "OpenCV does not convert uint8 of shape"),
        (Normalize([1, 2], 1), IMAGE, "use a number, or one per channel"),
        (Clip(), IMAGE.astype(np.int32), r"Clip\(\): an image is uint8, float32 or float64; received int32"),
        (Clip(), IMAGE[..., :2], r"received shape \(9, 7, 2\)"),
        (Clip(), IMAGE[:0], r"is not empty; received shape \(0, 7, 3\)"),
        (Clip(), np.full((3, 3), np.nan), "received NaN or infinity"),
        (Clip(), [[1]], "an image is a NumPy array; received list"),
    ],
)
def test_images_that_cannot_work_are_refused(augmentor, image, message):
    with pytest.raises(ImageError, match=message):
        run(augmentor, image)
