"""Detect circles, squares and triangles: boxes by Faster R-CNN, and masks by its mask head.

    python faster_rcnn.py
    python faster_rcnn.py --epochs 3 --log-dir short

The scenes are drawn by `shape_scenes.py`; image, boxes and masks are augmented together. A network proposes
regions (`region_proposals.py`), and heads predict class, box and mask of each (`region_heads.py`). The last
line has COCO's figures (`average_precision.py`) of held-out scenes; `found.png` in the log directory shows
some of them. After Ren et al., "Faster R-CNN" (2015), arXiv:1506.01497, and He
et al., "Mask R-CNN" (2017), arXiv:1703.06870; features of several scales are merged as in Lin et al.,
"Feature Pyramid Networks" (2016), arXiv:1612.03144.
"""

import argparse
import logging
from pathlib import Path

import tensorflow.compat.v1 as tf
from box_geometry import make_anchors
from detection_figures import DetectionFigures
from region_heads import (
    FOUND,
    MASK,
    OBJECTS,
    OTHERS,
    align,
    box_cost,
    classify,
    find,
    mask_cost,
    sample_regions,
    segment,
)
from region_proposals import proposal_cost, propose, score_anchors
from shape_scenes import MOST, NAMES, SIZE, make_flows

from towerpack_callbacks import InferenceRunner, MaxSaver, ScheduledHyperParamSetter, add_moving_summary
from towerpack_layers import BatchNorm, Conv2D, argscope, l2_regularizer, regularize_cost
from towerpack_trainers import ModelDesc, SimpleTrainer, TrainConfig

SIDES, STRIDE, FINE = (16, 28, 44), 8, 4  # of anchors; of the features that propose, and that heads look at
PROPOSALS = 32


class MaskRCNN(ModelDesc):
    """Proposes regions, and classifies them."""

    def inputs(self):
        return [
            tf.TensorSpec([None, SIZE, SIZE, 3], tf.uint8, "image"),
            tf.TensorSpec([None, MOST, 4], tf.float32, "boxes"),
            tf.TensorSpec([None, MOST], tf.int32, "classes"),
            tf.TensorSpec([None, SIZE, SIZE], tf.uint8, "instances"),
        ]

    def build_graph(self, image, boxes, classes, instances):
        fine, coarse = self.features(tf.cast(image, tf.float32) / 128 - 1)
        anchors = make_anchors(SIZE, STRIDE, SIDES)
        logits, changes = score_anchors(coarse, 3 * len(SIDES))
        proposals = propose(logits, changes, anchors, SIZE, PROPOSALS)
        if not self.training:
            return self.find_objects(fine, proposals)
        anchor_cost, anchor_box_cost = proposal_cost(logits, changes, anchors, boxes)
        costs = {"anchors": anchor_cost, "anchor_boxes": anchor_box_cost}
        costs.update(self.head_costs(fine, proposals, boxes, classes, tf.cast(instances, tf.int32)))
        decay = regularize_cost(".*/W", l2_regularizer(1e-5))
        cost = tf.add_n([*costs.values(), decay], name="cost")
        add_moving_summary(cost, *(tf.identity(value, f"cost_of_{name}") for name, value in costs.items()))
        return cost

    def features(self, x):
        """Returns features with strides of 4 and of 8 pixels, the latter before they are merged."""

        def activation(x):
            return tf.nn.relu(BatchNorm("bn", x))

        with argscope(Conv2D, kernel_size=3, use_bias=False, activation=activation):
            x = Conv2D("conv0", x, 16, strides=2)
            scale4 = Conv2D("conv2", Conv2D("conv1", x, 32, strides=2), 32)
            scale8 = Conv2D("conv4", Conv2D("conv3", scale4, 64, strides=2), 64)
            scale16 = Conv2D("conv6", Conv2D("conv5", scale8, 96, strides=2), 96)
            with argscope(Conv2D, kernel_size=1, activation=None):
                sides = [Conv2D(f"side{n}", y, 64) for n, y in enumerate((scale4, scale8, scale16))]
            coarse = sides[1] + tf.image.resize_nearest_neighbor(sides[2], sides[1].shape[1:3])
            fine = sides[0] + tf.image.resize_nearest_neighbor(coarse, sides[0].shape[1:3])
            return Conv2D("fine", fine, 64), Conv2D("coarse", coarse, 64)

    def head_costs(self, fine, proposals, boxes, classes, instances):
        """Returns the costs of the heads, by name."""
        regions, weights, wanted, nearest = sample_regions(proposals, boxes, classes)
        scores, changes = classify(align(fine, regions, 7, FINE), OBJECTS + OTHERS, len(NAMES))
        near_boxes = tf.gather(boxes, nearest, batch_dims=1)
        costs = box_cost(scores, changes, regions, weights, wanted, near_boxes)
        regions, weights, wanted, nearest = (
            part[:, :OBJECTS] for part in (regions, weights, wanted, nearest)
        )
        masks = segment(align(fine, regions, MASK // 2, FINE), OBJECTS, wanted, len(NAMES))
        mask = mask_cost(masks, weights, regions, instances, nearest)
        return {"classes": costs[0], "boxes": costs[1], "masks": mask}

    def find_objects(self, fine, proposals):
        """Names the detections; has no cost."""
        scores, changes = classify(align(fine, proposals, 7, FINE), PROPOSALS, len(NAMES))
        boxes, scores, classes = find(scores, changes, proposals, SIZE)
        masks = segment(align(fine, boxes, MASK // 2, FINE), FOUND, classes, len(NAMES))
        tf.identity(boxes, "found_boxes")
        tf.identity(scores, "found_scores")
        tf.identity(classes, "found_classes")
        tf.sigmoid(masks, "found_masks")

    def optimizer(self):
        return tf.train.AdamOptimizer(tf.get_variable("learning_rate", initializer=2e-3, trainable=False))


def train(options):
    """Trains with the options of the command line, and returns the figures."""
    flow, held_out = make_flows(options.scenes, options.held_out, options.batch, options.workers)
    figures, last = DetectionFigures(), options.epochs
    schedule = [(0, 2e-3), (round(0.6 * last), 1e-3), (round(0.85 * last), 2e-4)]
    config = TrainConfig(
        model=MaskRCNN(),
        dataflow=flow,
        callbacks=[
            InferenceRunner(held_out, figures),
            MaxSaver("mask/mAP"),
            ScheduledHyperParamSetter("learning_rate", schedule),
        ],
        max_epoch=last,
        log_dir=options.log_dir,
        seed=options.seed,
    )
    trainer = SimpleTrainer(config)
    trainer.train()
    figures.save(str(options.log_dir / "found.png"))
    reached = {name: trainer.monitors.get_latest(name) for name in figures.produces()}
    return "; ".join(
        f"{kind} mAP {reached[f'{kind}/mAP']:.3f}, mAP50 {reached[f'{kind}/mAP50']:.3f}"
        for kind in ("box", "mask")
    )


def positive(text):
    """Returns a number of the command line, which must be at least 1."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 on, received {text!r}")
    return int(text)


def read_options():
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    directory = Path("train_log") / "faster_rcnn"
    parser.add_argument("--epochs", type=positive, default=16, help="the last epoch; 16 if not given")
    parser.add_argument("--scenes", type=positive, default=800, help="to train on; 800 if not given")
    parser.add_argument("--held-out", type=positive, default=100, help="to evaluate with; 100 if not given")
    parser.add_argument("--batch", type=positive, default=8, help="scenes of a batch; 8 if not given")
    parser.add_argument("--seed", type=int, default=0, help="of the training; 0 if not given")
    parser.add_argument("--log-dir", type=Path, default=directory, help=f"{directory} if not given")
    parser.add_argument("--workers", type=int, default=1, help="processes that augment; 1 if not given")
    return parser.parse_args()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    print(train(read_options()))
