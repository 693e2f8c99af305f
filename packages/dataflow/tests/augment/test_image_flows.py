"""Flows of images: reading, decoding, augmentation; errors name the failing component."""

import pickle
import sys

import cv2
import numpy as np
import pytest
from PIL import Image

from towerpack_dataflow import (
    ArgumentError,
    ArgumentTypeError,
    ComponentError,
    DataFromList,
    FormatError,
    ImageError,
)
from towerpack_dataflow.augment import (
    Albumentations,
    AugmentImageComponent,
    AugmentImageComponents,
    AugmentImageCoordinates,
    AugmentorList,
    CenterCrop,
    Flip,
    ImageAugmentor,
    ImageFromFile,
    MapImage,
    NoOpTransform,
    RandomCrop,
    RandomMapImage,
    decode_image,
    read_image,
)

IMAGE = np.random.RandomState(1).randint(0, 256, (20, 30, 3)).astype(np.uint8)
SMOOTH = cv2.resize(IMAGE, (160, 96), interpolation=cv2.INTER_CUBIC)


def written(folder, name, picture=SMOOTH, **settings):
    path = folder / name
    Image.fromarray(picture).save(path, **settings)
    return path


def test_all_that_belongs_to_an_image_is_augmented_with_it():
    below = [
        {
            "image": IMAGE,
            "points": np.array([[1.0, 2.0]]),
            "boxes": np.array([[0.0, 0.0, 10.0, 20.0]]),
            "mask": np.zeros((20, 30), bool),
            "label": 3,
        }
    ]
    flow = AugmentImageComponents(
        below,
        [Flip(horiz=True, prob=1), CenterCrop((20, 24))],
        ("image",),
        ("points",),
        boxes_index=("boxes",),
        masks_index=("mask",),
    )
    (result,) = flow
    assert result["image"].shape == (20, 24, 3) and result["mask"].shape == (20, 24) and result["label"] == 3
    assert result["points"].tolist() == [[26, 2]] and result["boxes"].tolist() == [[17, 0, 24, 20]]


@pytest.mark.parametrize(
    ("datapoint", "message"),
    [
        ([IMAGE.astype(np.int16), np.zeros((1, 2))], r"component 0: Flip\(horiz=True\): an image is uint8"),
        (
            [IMAGE, np.zeros((1, 3))],
            r"component 1: coordinates are .* received shape \(1, 3\) of float64",
        ),
        ([IMAGE, np.zeros((1, 2), int)], "component 1: coordinates are a float array"),
        (
            [IMAGE[:5], np.zeros((1, 2))],
            r"component 0: RandomCrop\(crop_shape=\(8, 8\)\): the image has shape",
        ),
    ],
)
def test_errors_name_component_and_augmentor(datapoint, message):
    with pytest.raises(ImageError, match=message):
        list(AugmentImageCoordinates([datapoint], [Flip(horiz=True), RandomCrop(8)]))


def test_boxes_outside_and_masks_of_another_shape_are_refused():
    outside = [[IMAGE, np.array([[0.0, 0.0, 31.0, 5.0]])]]
    with pytest.raises(ImageError, match=r"component 1: .*width 30 and height 20; received box 0: "):
        list(AugmentImageComponents(outside, Flip(horiz=True), (0,), boxes_index=(1,)))
    with pytest.raises(ImageError, match="component 1: a mask is an array of integers"):
        list(AugmentImageComponents([[IMAGE, IMAGE[:3]]], Flip(horiz=True), (0,), masks_index=(1,)))
    with pytest.raises(ComponentError, match="no component 5"):
        list(AugmentImageComponent([[IMAGE]], Flip(horiz=True), index=5))


LABELS = np.arange(20 * 30 * 2, dtype=np.int32).reshape(20, 30, 2)


@pytest.mark.parametrize(
    "image", [LABELS, LABELS[..., :1].astype(np.uint16), LABELS[..., 0].astype(np.int16)]
)
def test_all_images_that_opencv_moves_are_accepted_if_asked_for(image):
    augmentors = [Flip(horiz=True, prob=1), CenterCrop(8)]
    expected = image[6:14, ::-1][:, 11:19]
    listed = AugmentorList(augmentors, opencv_images=True)
    assert (listed.augment(image) == expected).all()
    for flow in (
        AugmentImageComponent([[image]], augmentors, opencv_images=True),
        AugmentImageComponent([[image]], AugmentorList(augmentors), opencv_images=True),
        AugmentImageComponents([[image]], listed, (0,)),
        AugmentImageCoordinates([[image, np.zeros((1, 2))]], augmentors, opencv_images=True),
    ):
        (moved,) = [datapoint[0] for datapoint in pickle.loads(pickle.dumps(flow))]
        assert moved.dtype == image.dtype and (moved == expected).all()
    with pytest.raises(ImageError, match=r"AugmentorList\(\[Flip.* received (int32|uint16|int16)"):
        AugmentorList(augmentors).augment(image)


def test_images_that_opencv_does_not_move_are_refused():
    flow = AugmentImageComponent([[LABELS.astype(np.int64)]], Flip(horiz=True), opencv_images=True)
    with pytest.raises(ImageError, match=r"Flip.*: an image is .*received int64"):
        list(flow)
    with pytest.raises(ArgumentTypeError, match="opencv_images is True or False; received 'no'"):
        AugmentImageComponent([[LABELS]], Flip(horiz=True), opencv_images="no")


def test_an_image_between_two_augmentors_is_checked():
    halves = [MapImage(lambda image: image.astype(np.float16)), Flip(horiz=True)]
    with pytest.raises(ImageError, match=r"Flip\(horiz=True\): an image is .*received float16"):
        AugmentorList(halves).augment(IMAGE)
    with pytest.raises(ImageError, match=r"component 0: Flip\(horiz=True\): .*received float16"):
        list(AugmentImageComponent([[IMAGE]], halves))


def test_failing_datapoints_are_dropped_if_asked_for(caplog):
    below = DataFromList([[IMAGE], [IMAGE[:2]], [IMAGE]], shuffle=False)
    assert len(list(AugmentImageComponent(below, RandomCrop(4), catch_exceptions=True))) == 2
    assert "augmentation has failed 1 times" in caplog.text


def test_arguments_of_flows():
    with pytest.raises(ArgumentTypeError, match=r"augmentors\[0\] is an ImageAugmentor"):
        AugmentImageComponent([[IMAGE]], [np.flipud])
    with pytest.raises(ArgumentError, match="no component is named twice"):
        AugmentImageComponents([[IMAGE]], [], (0, 0))
    with pytest.raises(ArgumentError, match="files is a list of at least one file"):
        ImageFromFile([])


def test_members_of_the_source_stay_as_they_are():
    def scribble(image, rng):
        image[:] = rng.randint(256)
        return image

    source = [(IMAGE.copy(), 1)]
    ((result, label),) = AugmentImageComponent(source, RandomMapImage(scribble))
    assert label == 1 and (source[0][0] == IMAGE).all() and (result != IMAGE).any()


class Looking(ImageAugmentor):
    """Records whether it gets the image of the flow below, or a copy."""

    read_only = True
    below = None

    def get_transform(self, img):
        self.below = np.shares_memory(img, IMAGE)
        return NoOpTransform()


class InheritsTheClaim(Looking):
    pass


class SaysNothing(Looking):
    read_only = False
    __module__ = CenterCrop.__module__


@pytest.mark.parametrize(
    ("kind", "below"), [(Looking, True), (InheritsTheClaim, False), (SaysNothing, False)]
)
def test_a_class_says_for_itself_that_images_need_no_copy(kind, below):
    looking = kind()
    ((result,),) = AugmentImageComponent([[IMAGE]], AugmentorList([Flip(horiz=True, prob=0), looking]))
    assert looking.below is below and not np.shares_memory(result, IMAGE)


@pytest.fixture(params=["OpenCV", "Pillow"])
def decoder(request, monkeypatch):
    """The decoders of images."""
    if request.param == "Pillow":
        monkeypatch.setitem(sys.modules, "cv2", None)  # as if it were not installed
    return request.param


def differ(image, expected):
    return np.abs(image.astype(int) - expected).mean()


def test_files_are_read_as_they_are_meant_to_be_seen(tmp_path, decoder):
    turned = Image.Exif()
    turned[0x0112] = 6  # to be turned by a quarter
    paths = [
        written(tmp_path, "plain.jpg", quality=95),
        written(tmp_path, "lossless.png"),
        written(tmp_path, "turned.jpg", exif=turned, quality=95),
        written(tmp_path, "grey.png", SMOOTH[..., 0]),
        written(tmp_path, "transparent.png", np.dstack([SMOOTH, SMOOTH[..., 0]])),
    ]
    plain, lossless, upright, grey, opaque = (image for (image,) in ImageFromFile(paths))
    assert differ(plain, SMOOTH) < 6 and (lossless == SMOOTH).all() and (opaque == SMOOTH).all()
    assert upright.shape == (160, 96, 3) and differ(upright, np.rot90(SMOOTH, -1)) < 6
    assert (grey == SMOOTH[..., :1]).all() and plain.flags.writeable
    ((one,),) = ImageFromFile(paths[:1], channel=1)
    assert one.shape == (96, 160, 1) and differ(one[..., 0], cv2.cvtColor(SMOOTH, cv2.COLOR_RGB2GRAY)) < 3


def test_images_of_four_inks_and_of_sixteen_bits_are_read(tmp_path, decoder):
    Image.fromarray(SMOOTH).convert("CMYK").save(tmp_path / "cmyk.jpg", quality=95)
    assert differ(read_image(tmp_path / "cmyk.jpg"), SMOOTH) < 8
    deep = SMOOTH.astype(np.uint16) * 257
    cv2.imwrite(str(tmp_path / "deep.png"), deep[..., ::-1])
    cv2.imwrite(str(tmp_path / "grey.png"), deep[..., 0])
    assert np.abs(read_image(tmp_path / "deep.png").astype(int) - SMOOTH).max() <= 1
    assert np.abs(read_image(tmp_path / "grey.png", 1).astype(int) - SMOOTH[..., :1]).max() <= 1
    assert read_image(tmp_path / "grey.png").shape == (96, 160, 3)


@pytest.mark.parametrize("reduce", [2, 4, 8])
def test_images_are_decoded_at_a_fraction_of_their_size(tmp_path, decoder, reduce):
    small = cv2.resize(SMOOTH, (160 // reduce, 96 // reduce), interpolation=cv2.INTER_AREA)
    for name in ("plain.jpg", "plain.png"):
        ((image,),) = ImageFromFile([written(tmp_path, name)], reduce=reduce)
        assert image.shape == small.shape and differ(image, small) < 12, name


def test_images_are_resized_if_asked_for(tmp_path):
    ((image,),) = ImageFromFile([written(tmp_path, "plain.jpg")], channel=1, resize=(10, 12))
    assert image.shape == (10, 12, 1)


@pytest.mark.parametrize("name", ["cut.jpg", "cut.png", "empty.jpg", "text.jpg"])
def test_broken_files_are_named(tmp_path, name, decoder):
    path = written(tmp_path, "whole" + name[-4:])
    data = {"c": path.read_bytes()[:-200], "e": b"", "t": b"no picture at all"}[name[0]]
    (tmp_path / name).write_bytes(data)
    with pytest.raises(FormatError, match=f"{name}: "):
        list(ImageFromFile([tmp_path / name]))
    with pytest.raises(ArgumentError, match="reduce is 1, 2, 4 or 8"):
        decode_image(data, reduce=3)


def test_files_of_other_formats_and_with_more_behind_the_end_are_read(tmp_path):
    path = written(tmp_path, "plain.jpg")
    assert (decode_image(path.read_bytes() + bytes(50)) == read_image(path)).all()
    assert (read_image(written(tmp_path, "plain.bmp")) == SMOOTH).all()


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.jpg"):
        list(ImageFromFile([tmp_path / "nowhere.jpg"]))
    with pytest.raises(FileNotFoundError, match=r"nowhere\.jpg"):
        read_image((tmp_path / "nowhere.jpg").as_uri())


def test_without_a_decoder_the_extra_is_named(tmp_path, monkeypatch):
    for library in ("cv2", "PIL", "PIL.Image"):
        monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=r"decoding images needs the extra \[image\]"):
        decode_image(b"")


def test_transforms_of_other_libraries_are_seeded():
    class Shuffled:
        def set_random_seed(self, seed):
            self.rng = np.random.default_rng(seed)

        def __call__(self, image, **others):
            return {"image": self.rng.permutation(image), **others}

    flow = AugmentImageComponent([[IMAGE]], Albumentations(Shuffled()))
    flow.seed(1)
    first = flow.datapoint(0, 0)[0]
    assert (flow.datapoint(0, 0)[0] == first).all() and (first != IMAGE).any()
    with pytest.raises(ImageError, match="returns a dict with"):
        Albumentations(lambda image: image).augment(IMAGE)
