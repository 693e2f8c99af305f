"""Find the joints of a person by a convolutional pose machine with weights from a file.

    python pose_machine.py --load CPM-original.npz person.jpg      writes person.joints.png
    python pose_machine.py --load pose_iter_320000.caffemodel person.jpg

Names of layers are those of the authors' model for the data sets MPII and LSP: 14 joints and the background.
The person stands in the middle of the picture, about as high as it is. After Wei et al., "Convolutional Pose
Machines" (2016), arXiv:1602.00134.
"""

import argparse
from pathlib import Path

import cv2
import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_layers import AvgPooling, Conv2D, MaxPooling, argscope
from towerpack_trainers import ModelDesc, OfflinePredictor, PredictConfig, SmartInit

SIZE, STRIDE, STAGES = 368, 8, 6
JOINTS = [
    *("head", "neck", "right shoulder", "right elbow", "right wrist", "left shoulder", "left elbow"),
    *("left wrist", "right hip", "right knee", "right ankle", "left hip", "left knee", "left ankle"),
]
DEVIATION = 21  # of the Gaussian map around the middle of the picture, in pixels


def place_of_person():
    """Returns a Gaussian map, [1, SIZE, SIZE, 1], which marks the person in the middle for the network."""
    places = np.arange(SIZE, dtype=np.float32) - SIZE / 2
    bell = np.exp(-(places**2) / (2 * DEVIATION**2))
    return (bell[:, None] * bell)[None, ..., None]


class PoseMachine(ModelDesc):
    """Confidence maps of the joints; each stage refines those of the previous stage.

    Args:
        width: channels of the first convolutions; 64 as published.
    """

    def __init__(self, width=64):
        self.width = width

    def inputs(self):
        return [tf.TensorSpec([None, SIZE, SIZE, 3], tf.uint8, "image")]

    def build_graph(self, image):
        image = tf.cast(image[..., ::-1], tf.float32) / 256 - 0.5  # blue first
        person = AvgPooling("person", tf.constant(place_of_person()), STRIDE)
        person = tf.tile(person, [tf.shape(image)[0], 1, 1, 1])
        with argscope(Conv2D, kernel_size=3, activation=tf.nn.relu):
            seen = self.features(image)
            maps = Conv2D("conv5_1_CPM", seen, 8 * self.width, 1)
            maps = Conv2D("conv5_2_CPM", maps, len(JOINTS) + 1, 1, activation=None)
            for stage in range(2, STAGES + 1):
                maps = self.stage(f"stage{stage}", tf.concat([maps, seen, person], -1))
        tf.image.resize_bilinear(maps, [SIZE, SIZE], name="confidence")

    def features(self, x):
        """The features of the picture for all stages, with a stride of 8."""
        for group, (count, factor) in enumerate([(2, 1), (2, 2), (4, 4)], 1):
            for index in range(1, count + 1):
                x = Conv2D(f"conv{group}_{index}", x, factor * self.width)
            x = MaxPooling(f"pool{group}", x, 2)
        x = Conv2D("conv4_2", Conv2D("conv4_1", x, 8 * self.width), 8 * self.width)
        for index in range(3, 7):
            x = Conv2D(f"conv4_{index}_CPM", x, 4 * self.width)
        return Conv2D("conv4_7_CPM", x, 2 * self.width)

    def stage(self, name, x):
        """Maps of all joints, by convolutions with a large receptive field."""
        for index in range(1, 6):
            x = Conv2D(f"Mconv{index}_{name}", x, 2 * self.width, 7)
        x = Conv2D(f"Mconv6_{name}", x, 2 * self.width, 1)
        return Conv2D(f"Mconv7_{name}", x, len(JOINTS) + 1, 1, activation=None)

    def optimizer(self):
        raise NotImplementedError("this network is not trained here")


def padded_square(picture):
    """Returns the picture in the middle of a grey square of the network's size."""
    height, width = picture.shape[:2]
    scale = SIZE / max(height, width)
    shape = round(width * scale), round(height * scale)
    square = np.full((SIZE, SIZE, 3), 128, np.uint8)
    top, left = (SIZE - shape[1]) // 2, (SIZE - shape[0]) // 2
    resized = cv2.resize(picture, shape, interpolation=cv2.INTER_AREA)
    square[top : top + shape[1], left : left + shape[0]] = resized
    return square


def find_joints(image, weights, width):
    """Returns the position (x, y) of each joint in an image, with the weights of a file."""
    config = PredictConfig(
        model=PoseMachine(width),
        session_init=SmartInit(weights, allow=["unused"]),
        input_names=["image"],
        output_names=["confidence"],
    )
    with OfflinePredictor(config) as predictor:
        (maps,) = predictor(image[None])
    # The last map is the background.
    highest = maps[0, ..., : len(JOINTS)].reshape(SIZE * SIZE, -1).argmax(0)
    return [(int(place % SIZE), int(place // SIZE)) for place in highest]


def main():
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("picture", type=Path, help="of one person")
    parser.add_argument("--load", type=Path, required=True, metavar="FILE", help="weights")
    parser.add_argument("--width", type=int, default=64, help="of the network; 64, as published")
    options = parser.parse_args()
    picture = cv2.imread(str(options.picture))
    if picture is None:
        raise SystemExit(f"{options.picture} is no picture")
    image = padded_square(picture[..., ::-1])
    places = find_joints(image, options.load, options.width)
    drawn = np.ascontiguousarray(image[..., ::-1])
    for place in places:
        cv2.circle(drawn, place, 4, (0, 0, 255), -1)
    cv2.imwrite(str(options.picture.with_suffix(".joints.png")), drawn)
    print("; ".join(f"{name} {x}, {y}" for name, (x, y) in zip(JOINTS, places)))


if __name__ == "__main__":
    main()
