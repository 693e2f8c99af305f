"""The evaluation of detections: COCO's figures of boxes and of masks, and pictures."""

import cv2
import numpy as np
from average_precision import AveragePrecision, box_overlaps, mask_overlaps
from shape_scenes import NAMES

from towerpack_callbacks import Inferencer
from towerpack_dataflow.viz import PALETTE_RGB, draw_boxes, save_grid

INPUTS = ["image", "boxes", "classes", "instances"]
OUTPUTS = ["found_boxes", "found_scores", "found_classes", "found_masks"]


def paste(masks, boxes, size):
    """Returns masks of whole images, of masks of boxes: bool [number, size, size].

    Args:
        masks: probabilities, float32 [number, rows, columns].
        boxes: float32 [number, 4].
        size: height and width of the image.
    """
    pasted = np.zeros((len(masks), size, size), bool)
    pixels = np.arange(size, dtype=np.float32) + 0.5
    for whole, mask, (left, top, right, bottom) in zip(pasted, masks, boxes):
        x, y = (pixels - left) / (right - left + 1e-6), (pixels - top) / (bottom - top + 1e-6)
        inside = np.ix_((y > 0) & (y < 1), (x > 0) & (x < 1))
        columns, rows = np.meshgrid(x * mask.shape[1] - 0.5, y * mask.shape[0] - 0.5)
        wide = cv2.remap(mask, columns, rows, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        whole[inside] = wide[inside] > 0.5
    return pasted


class DetectionFigures(Inferencer):
    """Computes COCO's average precisions, and keeps pictures of the first batch.

    The model has the inputs and outputs that `INPUTS` and `OUTPUTS` name.
    """

    def _get_fetches(self):
        return [*INPUTS, *OUTPUTS]

    def _before_inference(self):
        self.precisions, self.pictures = {"box": AveragePrecision(), "mask": AveragePrecision()}, []

    def _on_fetches(self, values, batch_size):
        first = not self.pictures
        for image, boxes, classes, instances, *found in zip(*values):
            there, found = classes > 0, [part[found[1] > 0] for part in found]
            found_masks = paste(found[3], found[0], len(image))
            masks = instances == np.arange(1, there.sum() + 1)[:, None, None]
            shared = {"box": box_overlaps(found[0], boxes[there]), "mask": mask_overlaps(found_masks, masks)}
            for kind, precision in self.precisions.items():
                precision.add(found[1], found[2], classes[there], shared[kind])
            if first:
                self.pictures.append(drawn(image, found[0], found[1], found[2], found_masks))

    def _after_inference(self):
        figures = {kind: precision.result() for kind, precision in self.precisions.items()}
        return {f"{kind}/{name}": value for kind, result in figures.items() for name, value in result.items()}

    def produces(self):
        return [f"{kind}/{name}" for kind in ("box", "mask") for name in ("mAP", "mAP50", "mAP75")]

    def save(self, path):
        """Writes a picture of the detections in the first batch."""
        save_grid(self.pictures, path)


def drawn(image, boxes, scores, classes, masks):
    """Returns an image, enlarged by 2, with the detections of scores of at least 0.5."""
    image = cv2.resize(image, None, fx=2, fy=2, interpolation=cv2.INTER_CUBIC)
    sure = scores >= 0.5
    for label, mask in zip(classes[sure], masks[sure]):
        wide = np.repeat(np.repeat(mask, 2, 0), 2, 1)
        image[wide] = image[wide] // 2 + PALETTE_RGB[label] // 2
    return draw_boxes(image, 2 * boxes[sure], [NAMES[label] for label in classes[sure]])
