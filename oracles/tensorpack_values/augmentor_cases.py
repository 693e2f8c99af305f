"""All of `tensorpack.dataflow.imgaug`, with the same random numbers: images, coordinates and transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
from cases import add, case, image, raised
from tensorpack.dataflow import (
    AugmentImageComponent,
    AugmentImageComponents,
    AugmentImageCoordinates,
    DataFromList,
    MapData,
    imgaug,
)
from tensorpack.dataflow.imgaug.deform import GaussianDeform
from tensorpack.dataflow.imgaug.transform import (
    NoOpTransform,
    PhotometricTransform,
    TransposeTransform,
    WarpAffineTransform,
)

EIGENVALUES = np.array([0.2175, 0.0188, 0.0045]) * 255
EIGENVECTORS = np.array([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]])
POINTS = np.array([[0, 0], [3, 5], [22, 16], [10.5, 8.25]])

# By the names of cases: what makes an augmentor, whether it also takes grey and float images.
MADE: dict[str, tuple[Callable[[], Any], str]] = {
    "Hue": (lambda: imgaug.Hue((0, 90)), "u"),
    "Hue_bgr": (lambda: imgaug.Hue((20, 90), rgb=False), "u"),
    "Brightness": (lambda: imgaug.Brightness(63), "ufg"),
    "Brightness_unclipped": (lambda: imgaug.Brightness(63, clip=False), "uf"),
    "BrightnessScale": (lambda: imgaug.BrightnessScale((0.4, 1.6)), "ufg"),
    "BrightnessScale_unclipped": (lambda: imgaug.BrightnessScale((0.4, 1.6), clip=False), "uf"),
    "Contrast": (lambda: imgaug.Contrast((0.6, 1.4)), "ufg"),
    "Contrast_rgb": (lambda: imgaug.Contrast((0.6, 1.4), rgb=True), "uf"),
    "Contrast_bgr": (lambda: imgaug.Contrast((0.6, 1.4), rgb=False, clip=False), "uf"),
    "MeanVarianceNormalize": (lambda: imgaug.MeanVarianceNormalize(), "ufg"),
    "MeanVarianceNormalize_channels": (lambda: imgaug.MeanVarianceNormalize(all_channel=False), "uf"),
    "GaussianBlur": (lambda: imgaug.GaussianBlur((1, 4)), "ufg"),
    "GaussianBlur_asymmetric": (lambda: imgaug.GaussianBlur((1, 4), (0.5, 2), symmetric=False), "uf"),
    "GaussianBlur_size": (lambda: imgaug.GaussianBlur(3), "u"),
    "Gamma": (lambda: imgaug.Gamma(), "ufg"),
    "Clip": (lambda: imgaug.Clip(30, 200), "ufg"),
    "Saturation": (lambda: imgaug.Saturation(0.4), "uf"),
    "Saturation_bgr": (lambda: imgaug.Saturation(0.4, rgb=False, clip=False), "uf"),
    "Lighting": (lambda: imgaug.Lighting(0.1, EIGENVALUES, EIGENVECTORS), "uf"),
    "MinMaxNormalize": (lambda: imgaug.MinMaxNormalize(0, 1), "ufg"),
    "MinMaxNormalize_channels": (lambda: imgaug.MinMaxNormalize(0, 255, all_channel=False), "uf"),
    "ColorSpace": (lambda: imgaug.ColorSpace(cv2.COLOR_BGR2HSV), "u"),
    "ColorSpace_grey": (lambda: imgaug.ColorSpace(cv2.COLOR_BGR2GRAY), "u"),
    "ColorSpace_flat": (lambda: imgaug.ColorSpace(cv2.COLOR_BGR2GRAY, keepdims=False), "u"),
    "Grayscale": (lambda: imgaug.Grayscale(), "u"),
    "Grayscale_rgb": (lambda: imgaug.Grayscale(rgb=True, keepshape=True), "uf"),
    "ToUint8": (lambda: imgaug.ToUint8(), "uf"),
    "ToFloat32": (lambda: imgaug.ToFloat32(), "uf"),
    "RandomCrop": (lambda: imgaug.RandomCrop((9, 12)), "ufg"),
    "RandomCrop_square": (lambda: imgaug.RandomCrop(11), "u"),
    "CenterCrop": (lambda: imgaug.CenterCrop((9, 12)), "ufg"),
    "RandomCropRandomShape": (lambda: imgaug.RandomCropRandomShape(5, 6), "u"),
    "RandomCropRandomShape_limits": (lambda: imgaug.RandomCropRandomShape(5, 6, 12, 13), "u"),
    "GoogleNetRandomCropAndResize": (lambda: imgaug.GoogleNetRandomCropAndResize(target_shape=14), "ufg"),
    "GoogleNetRandomCropAndResize_fallback": (
        lambda: imgaug.GoogleNetRandomCropAndResize((1, 1), (9, 9.1), 14),
        "u",
    ),
    "RandomCutout": (lambda: imgaug.RandomCutout(4, 6, 7.0), "ufg"),
    "Shift": (lambda: imgaug.Shift(0.3, 0.3), "ufg"),
    "Shift_constant": (lambda: imgaug.Shift(0.3, 0.3, cv2.BORDER_CONSTANT, 9), "u"),
    "Rotation": (lambda: imgaug.Rotation(30), "ufg"),
    "Rotation_steps": (lambda: imgaug.Rotation(180, (0.5, 0.5), step_deg=45), "u"),
    "RotationAndCropValid": (lambda: imgaug.RotationAndCropValid(30), "ufg"),
    "RotationAndCropValid_steps": (lambda: imgaug.RotationAndCropValid(180, step_deg=30), "u"),
    "Affine": (lambda: imgaug.Affine((0.8, 1.2), (0.1, 0.2), 20.0, 8.0), "ufg"),
    "Affine_translation": (lambda: imgaug.Affine(translate_frac=(0.3, 0.1)), "u"),
    "Affine_shear": (lambda: imgaug.Affine(shear=20.0, border=cv2.BORDER_CONSTANT), "u"),
    "Flip": (lambda: imgaug.Flip(horiz=True), "ufg"),
    "Flip_vertical": (lambda: imgaug.Flip(vert=True, prob=0.9), "u"),
    "Resize": (lambda: imgaug.Resize((9, 30)), "ufg"),
    "Resize_cubic": (lambda: imgaug.Resize(12, interp=cv2.INTER_CUBIC), "u"),
    "ResizeShortestEdge": (lambda: imgaug.ResizeShortestEdge(11), "ufg"),
    "RandomResize": (lambda: imgaug.RandomResize((0.8, 1.3), (0.8, 1.3)), "u"),
    "RandomResize_pixels": (lambda: imgaug.RandomResize((10, 30), (10, 30)), "u"),
    "RandomResize_ratio": (lambda: imgaug.RandomResize((0.8, 1.3), aspect_ratio_thres=0), "u"),
    "RandomResize_ratio_pixels": (lambda: imgaug.RandomResize((10, 30), aspect_ratio_thres=0), "u"),
    "RandomResize_minimum": (
        lambda: imgaug.RandomResize((0.1, 0.2), minimum=(10, 9), aspect_ratio_thres=0),
        "u",
    ),
    "Transpose": (lambda: imgaug.Transpose(0.9), "ufg"),
    "JpegNoise": (lambda: imgaug.JpegNoise((40, 60)), "u"),
    "GaussianNoise": (lambda: imgaug.GaussianNoise(3), "ufg"),
    "GaussianNoise_unclipped": (lambda: imgaug.GaussianNoise(3, clip=False), "uf"),
    "SaltPepperNoise": (lambda: imgaug.SaltPepperNoise(0.1, 0.2), "ufg"),
    "CenterPaste": (lambda: imgaug.CenterPaste((30, 40)), "ufg"),
    "RandomPaste": (lambda: imgaug.RandomPaste((30, 40), imgaug.ConstantBackgroundFiller(12)), "ufg"),
    "Identity": (lambda: imgaug.Identity(), "ufg"),
    "MapImage": (lambda: imgaug.MapImage(lambda im: im * 0.5, lambda coords: coords + 1), "uf"),
    "RandomApplyAug": (lambda: imgaug.RandomApplyAug(imgaug.Resize(5), 0.5), "u"),
    "RandomChooseAug": (lambda: imgaug.RandomChooseAug([imgaug.Resize(n) for n in (5, 6, 7)]), "u"),
    "RandomChooseAug_weights": (
        lambda: imgaug.RandomChooseAug([(imgaug.Resize(5), 0.2), (imgaug.Resize(6), 0.8)]),
        "u",
    ),
    "RandomOrderAug": (
        lambda: imgaug.RandomOrderAug([imgaug.MapImage(lambda im: im + 1.0), imgaug.Clip(50, 90)]),
        "f",
    ),
    "AugmentorList": (
        lambda: imgaug.AugmentorList([imgaug.CenterCrop(13), imgaug.Resize((20, 10)), imgaug.Clip(50, 90)]),
        "ufg",
    ),
    "GaussianDeform": (
        lambda: GaussianDeform([(0.2, 0.2), (0.7, 0.6)], (17, 23), 0.3, 3),
        "f",
    ),
}
IMAGES = {"u": image(), "f": image("float32"), "g": image("uint8", channels=1)}


def augmented(make: Callable[[], Any], kinds: str) -> Any:
    """Augments images by three draws each, and coordinates as far as the transform takes them."""
    found = {}
    for kind in kinds:
        for seed in (1, 2, 3):
            augmentor = make()
            augmentor.rng = np.random.RandomState(seed)
            if isinstance(augmentor, imgaug.Affine):  # OpenCV of today takes no number of NumPy there
                draw = augmentor._rand_range
                augmentor._rand_range = lambda *bounds, draw=draw: float(draw(*bounds))
            transform = augmentor.get_transform(IMAGES[kind].copy())
            changed = transform.apply_image(IMAGES[kind].copy())
            found[f"{kind}{seed}"] = {"image": changed, "dtype": str(changed.dtype)}
            try:
                found[f"{kind}{seed}"]["points"] = transform.apply_coords(POINTS.copy())
            except Exception:
                found[f"{kind}{seed}"]["points"] = "refused"
    return found


for name, (make, kinds) in MADE.items():
    add(f"augmentor/{name}", lambda make=make, kinds=kinds: augmented(make, kinds))


@case
def random_range() -> Any:
    class Own(imgaug.ImageAugmentor):
        def get_transform(self, img: Any) -> Any:
            return self._rand_range(2), self._rand_range(2, 5), self._rand_range(0, 1, (2, 3))

    own = Own()
    own.rng = np.random.RandomState(4)
    one, two, three = own.get_transform(None)
    return one, two, three, [str(np.asarray(each).dtype) for each in (one, two, three)]


@case
def own_photometric() -> Any:
    class Own(imgaug.PhotometricAugmentor):
        def __init__(self, factor: float) -> None:
            super().__init__()
            self._init(locals())

        def _get_augment_params(self, img: Any) -> Any:
            return self.rng.rand(), img.shape

        def _augment(self, img: Any, params: Any) -> Any:
            return img * params[0] * self.factor

    own = Own(3)
    own.rng = np.random.RandomState(4)
    return own.augment(image())


@case
def transforms() -> Any:
    matrix = cv2.getRotationMatrix2D((8, 9), 20, 1.1)
    made = [
        imgaug.ResizeTransform(17, 23, 9, 30, cv2.INTER_LINEAR),
        imgaug.CropTransform(2, 3, 9, 8),
        imgaug.FlipTransform(17, 23),
        imgaug.FlipTransform(17, 23, horiz=False),
        WarpAffineTransform(matrix, (23, 17)),
        TransposeTransform(),
        NoOpTransform(),
        PhotometricTransform(lambda im: im + 1, "more"),
        imgaug.TransformFactory(apply_image=lambda im: im[:3], apply_coords=lambda points: points + 1),
    ]
    made.append(imgaug.TransformList([made[1], made[6]]) + made[6])
    return [(each.apply_image(image()), each.apply_coords(POINTS.copy())) for each in made]


@case
def attributes() -> Any:
    crop, flip = imgaug.CropTransform(2, 3, 9, 8), imgaug.FlipTransform(17, 23)
    resize = imgaug.ResizeTransform(17, 23, 9, 30, cv2.INTER_LINEAR)
    shortest = imgaug.ResizeShortestEdge(11).get_transform(image())
    return [
        (crop.y0, crop.x0, crop.h, crop.w),
        (flip.h, flip.w, flip.horiz),
        (resize.h, resize.w, resize.new_h, resize.new_w, resize.interp),
        (shortest.new_h, shortest.new_w),
        imgaug.Resize(5).shape,
        imgaug.RandomCrop(5).crop_shape,
        imgaug.Flip(horiz=True).prob,
        len(imgaug.AugmentorList([imgaug.Identity()]).augmentors),
    ]


@case
def old_methods() -> Any:
    augmentors = imgaug.AugmentorList([imgaug.Resize(30), imgaug.CenterCrop(20)])
    changed, params = augmentors.augment_return_params(image())
    again = augmentors.augment_with_params(image(), params)
    return changed, again, augmentors.augment_coords(POINTS.copy(), params), augmentors.augment(image())


@case
def refusals() -> Any:
    return [
        raised(imgaug.Flip),
        raised(imgaug.Flip, horiz=True, vert=True),
        raised(imgaug.CenterCrop(99).get_transform, image()),
        raised(imgaug.RandomCrop(99).get_transform, image()),
        raised(imgaug.ResizeTransform(1, 1, 2, 2, 1).apply_image, image()),
        raised(imgaug.CenterPaste((2, 2)).augment, image()),
        raised(imgaug.Identity().augment, "no image"),
        raised(imgaug.Identity().augment, image().astype("int64")),
    ]


def _read(flow: Any) -> list[Any]:
    flow.reset_state()
    return [list(datapoint) for datapoint in flow]


@case
def flows_of_images() -> Any:
    rows = [[image(), 3, POINTS.copy()], [image()[:9], 4, POINTS.copy() + 1]]
    augmentors = [imgaug.Resize((12, 13)), imgaug.CenterCrop(7)]
    second = MapData(DataFromList(rows, shuffle=False), lambda dp: [dp[0], dp[0][..., :1], dp[2]])
    return [
        _read(AugmentImageComponent(DataFromList(rows, shuffle=False), augmentors)),
        _read(AugmentImageComponent(DataFromList(rows, shuffle=False), imgaug.AugmentorList(augmentors), 0)),
        _read(AugmentImageCoordinates(DataFromList(rows, shuffle=False), augmentors, 0, 2)),
        _read(AugmentImageComponents(second, augmentors, index=(0, 1), coords_index=(2,))),
    ]


@case
def images_that_augmentors_refuse_are_left_out() -> Any:
    rows = [[image(), 1], [image()[:3], 2], [image(), 3]]
    flow = AugmentImageComponent(
        DataFromList(rows, shuffle=False), [imgaug.CenterCrop(10)], catch_exceptions=True
    )
    return _read(flow)
