"""COCO's average precision of detected boxes or masks.

A detection is correct if its overlap with an object of its class reaches a threshold, and no detection with
a higher score matches this object. The average precision of a class is the mean of its precisions at 101
recalls; the result is the mean over classes and over thresholds from 0.5 to 0.95. The evaluation follows
https://cocodataset.org.
"""

import numpy as np

THRESHOLDS = np.linspace(0.5, 0.95, 10)
RECALLS = np.linspace(0, 1, 101)
MOST = 100  # detections of an image that count, those with the highest scores


def box_overlaps(found, truth):
    """Returns the intersection over union of boxes: [found, truth].

    Args:
        found: boxes, float, shape [number, 4], rows of x0, y0, x1, y1 in pixels.
        truth: other boxes, of the same kind.

    Raises:
        ValueError: boxes have another shape.
    """
    first, second = (np.asarray(boxes, np.float64) for boxes in (found, truth))
    for boxes in (first, second):
        if boxes.ndim != 2 or boxes.shape[1] != 4:
            raise ValueError(f"boxes have shape [number, 4]; received shape {boxes.shape}")
    low = np.maximum(first[:, None, :2], second[None, :, :2])
    high = np.minimum(first[:, None, 2:], second[None, :, 2:])
    shared = np.maximum(high - low, 0).prod(2)
    areas = [(boxes[:, 2:] - boxes[:, :2]).prod(1) for boxes in (first, second)]
    return divided(shared, areas[0][:, None] + areas[1] - shared)


def mask_overlaps(found, truth):
    """Returns the intersection over union of masks: [found, truth].

    Args:
        found: masks, bool, shape [number, height, width].
        truth: other masks of the same height and width.

    Raises:
        ValueError: masks have another shape, or other sizes than one another.
    """
    first, second = (np.asarray(masks, bool) for masks in (found, truth))
    if first.ndim != 3 or second.ndim != 3 or first.shape[1:] != second.shape[1:]:
        raise ValueError(
            "masks have shape [number, height, width] with one height and width; "
            f"received shapes {first.shape} and {second.shape}"
        )
    pixels = first.shape[1] * first.shape[2]
    rows = [masks.reshape(len(masks), pixels).astype(np.float64) for masks in (first, second)]
    shared = rows[0] @ rows[1].T
    return divided(shared, rows[0].sum(1)[:, None] + rows[1].sum(1) - shared)


def divided(shared, covered):
    """Returns the quotients, and 0 for an empty union."""
    return np.divide(shared, covered, out=np.zeros_like(shared), where=covered > 0)


class AveragePrecision:
    """Collects the detections of images, and computes COCO's figures."""

    def __init__(self):
        self.outcomes, self.objects = {}, {}

    def add(self, scores, labels, true_labels, overlaps):
        """Adds the detections and the objects of an image.

        Args:
            scores: of detections, float, shape [found]; higher means more certain.
            labels: their classes, integers, shape [found].
            true_labels: the classes of the objects, integers, shape [objects].
            overlaps: of detections and objects, float, shape [found, objects], from 0 to 1.

        Raises:
            ValueError: the shapes do not match, or a score is not finite.
        """
        scores, labels, true_labels, overlaps = map(np.asarray, (scores, labels, true_labels, overlaps))
        if scores.shape != labels.shape or overlaps.shape != (*scores.shape, *true_labels.shape):
            raise ValueError(
                "scores and labels have shape [found], true_labels [objects] and overlaps [found, objects]; "
                f"received {scores.shape}, {labels.shape}, {true_labels.shape} and {overlaps.shape}"
            )
        if not np.isfinite(scores).all():
            raise ValueError(f"scores are finite; received {scores.tolist()}")
        for label in np.unique(np.concatenate([labels, true_labels])):
            found, there = np.flatnonzero(labels == label), np.flatnonzero(true_labels == label)
            best = found[np.argsort(-scores[found], kind="stable")][:MOST]
            right = matched(overlaps[np.ix_(best, there)])
            self.outcomes.setdefault(int(label), []).append((scores[best], right))
            self.objects[int(label)] = self.objects.get(int(label), 0) + len(there)

    def result(self):
        """Returns "mAP", the mean over all thresholds, and "mAP50" and "mAP75", each from 0 to 1.

        Raises:
            ValueError: no image has an object.
        """
        classes = [label for label, count in self.objects.items() if count]
        if not classes:
            raise ValueError("no image has an object; add() at least one with a true label before result()")
        means = np.mean([self.class_precision(label) for label in classes], 0)
        return {"mAP": float(means.mean()), "mAP50": float(means[0]), "mAP75": float(means[5])}

    def class_precision(self, label):
        """Returns the average precision of a class at each threshold."""
        scores, right = (np.concatenate(parts, -1) for parts in zip(*self.outcomes[label]))
        right = right[:, np.argsort(-scores, kind="stable")]
        return [averaged(hits, self.objects[label]) for hits in right]


def matched(overlaps):
    """Matches detections, in order of their scores, at each threshold: bool [threshold, found]."""
    right = np.zeros((len(THRESHOLDS), len(overlaps)), bool)
    for hits, threshold in zip(right, THRESHOLDS):
        left = overlaps.copy()
        for number in range(len(left)):
            if left.shape[1] and left[number].max() >= threshold:
                hits[number] = True
                left[:, left[number].argmax()] = -1  # taken
    return right


def averaged(hits, objects):
    """Returns the mean of the precisions at 101 recalls, each the best one at this recall or a higher one.

    Args:
        hits: whether each detection is correct, in order of their scores.
        objects: the number of objects.
    """
    right = np.cumsum(hits)
    precision = right / np.arange(1, len(hits) + 1)
    best = np.maximum.accumulate(precision[::-1])[::-1]
    places = np.searchsorted(right / objects, RECALLS)
    return float(np.append(best, 0)[places].mean())
