"""Generated scenes: circles, squares and triangles that partly hide each other, with their masks."""

import cv2
import numpy as np

from towerpack_dataflow import AugmentImageComponents, BatchData, DataFromList, MapData, MultiProcessRunner
from towerpack_dataflow.augment import Brightness, Contrast, Flip, RandomCrop

NAMES = ("background", "circle", "square", "triangle")
SIZE, MARGIN = 96, 16  # height and width of an image, and the extra pixels of images to crop
MOST = 4  # objects of an image


def outline(label, radius, turn):
    """Returns the corners of a shape around (0, 0)."""
    corners = (64, 4, 3)[label - 1]
    angles = turn + 2 * np.pi * np.arange(corners) / corners
    return radius * np.stack([np.sin(angles), np.cos(angles)], 1)


def draw_scene(rng, size):
    """Returns a datapoint with an image and its objects.

    Args:
        rng: the source of shapes, positions and colours.
        size: height and width, in pixels.

    Returns:
        A dict with "image", uint8 [size, size, 3]; "boxes", float32 [objects, 4], rows of x0, y0, x1, y1
        around the visible part of each object; "classes", int32 [objects], indices of `NAMES`; "instances",
        uint8 [size, size], 0 for the background and else 1 + the number of the object.
    """
    coarse = rng.integers(60, 200, (3, 3, 3), np.uint8)
    image = cv2.resize(coarse, (size, size), interpolation=cv2.INTER_CUBIC)
    instances, classes = np.zeros((size, size), np.uint8), []
    wanted = rng.integers(1, MOST + 1)
    for _ in range(4 * wanted):
        if len(classes) == wanted:
            break
        label = int(rng.integers(1, len(NAMES)))
        covered = place(label, rng, size)
        if leaves_enough(instances, covered):
            classes.append(label)
            image[covered] = unlike(image[covered].mean(0), rng)
            instances[covered] = len(classes)
    noisy = np.clip(image + rng.normal(0, 8, image.shape), 0, 255).astype(np.uint8)
    boxes = np.array([box_of(instances == number + 1) for number in range(len(classes))], np.float32)
    return {"image": noisy, "boxes": boxes, "classes": np.array(classes, np.int32), "instances": instances}


def place(label, rng, size):
    """Returns the pixels of a shape at a random place, as bool [size, size]."""
    radius = rng.uniform(9, 24)
    centre, turn = rng.uniform(radius, size - radius, 2), rng.uniform(0, 2 * np.pi)
    covered = np.zeros((size, size), np.uint8)
    cv2.fillPoly(covered, [np.round(outline(label, radius, turn) + centre).astype(np.int32)], 1)
    return covered.astype(bool)


def leaves_enough(instances, covered):
    """Returns whether at least two thirds of each visible object remain when pixels are covered."""
    before = np.bincount(instances.ravel(), minlength=MOST + 1)[1:]
    after = np.bincount(instances[~covered], minlength=MOST + 1)[1:]
    return bool((after >= before * 2 / 3).all())


def unlike(around, rng):
    """Returns a colour that differs from its surroundings by at least 70 grey levels in each channel."""
    step = rng.uniform(70, 110, 3) * rng.choice([-1, 1], 3)
    return around + np.where((around + step < 0) | (around + step > 255), -step, step)


def box_of(mask):
    """Returns the smallest box around the pixels of a mask: x0, y0, x1, y1."""
    rows, columns = np.nonzero(mask)
    return [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]


def padded(datapoint):
    """Drops objects that are mostly cropped away, and pads their number to `MOST`.

    Returns:
        [image, boxes, classes, instances], as in `draw_scene`; the class of padding is 0.
    """
    image, boxes, classes, instances = (datapoint[k] for k in ("image", "boxes", "classes", "instances"))
    seen = np.bincount(instances.ravel(), minlength=MOST + 1)[1 : len(classes) + 1]
    kept = np.flatnonzero(((boxes[:, 2:] - boxes[:, :2]).min(1) >= 8) & (seen >= 48))
    renumbered = np.zeros(MOST + 1, np.uint8)
    renumbered[kept + 1] = np.arange(1, len(kept) + 1)
    all_boxes, all_classes = np.zeros((MOST, 4), np.float32), np.zeros(MOST, np.int32)
    all_boxes[: len(kept)], all_classes[: len(kept)] = boxes[kept], classes[kept]
    return [image, all_boxes, all_classes, renumbered[instances]]


def augmented(scenes):
    """Returns a flow of scenes with augmented colours, and with image, boxes and masks moved together."""
    augmentors = [RandomCrop(SIZE), Flip(horiz=True), Flip(vert=True), Brightness(30), Contrast((0.8, 1.2))]
    moved = AugmentImageComponents(
        scenes, augmentors, index=("image",), boxes_index=("boxes",), masks_index=("instances",)
    )
    return MapData(moved, padded)


def make_flows(count, held_out, batch, workers):
    """Draws the same scenes each time, and creates the flows of batches for training and evaluation.

    Args:
        count: number of scenes to train on; the objects of some may be cropped away by augmentation.
        held_out: number of others to evaluate with.
        batch: number of scenes of a batch.
        workers: processes that augment.
    """
    rng = np.random.default_rng(0)
    test = DataFromList([padded(draw_scene(rng, SIZE)) for _ in range(held_out)], shuffle=False)
    training = DataFromList([draw_scene(rng, SIZE + MARGIN) for _ in range(count)], shuffle=True)
    flow = MultiProcessRunner(BatchData(augmented(training), batch), workers)
    return flow, BatchData(test, batch, remainder=True)
