"""A classifier of digits with all annotations: training, the best weights, and prediction.

python classifier.py
"""

from collections.abc import Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks import InferenceRunner, MaxSaver, ModelSaver, ScalarStats
from towerpack_dataflow import BatchData
from towerpack_dataflow.datasets import Digits
from towerpack_layers import Conv2D, FullyConnected, MaxPooling, argscope
from towerpack_trainers import (
    ModelDesc,
    OfflinePredictor,
    PredictConfig,
    SaverRestore,
    SimpleTrainer,
    TrainConfig,
)


class Classifier(ModelDesc):
    """Two convolutions and a linear layer.

    Args:
        channels: of each convolution.
    """

    def __init__(self, channels: int = 16) -> None:
        self._channels = channels

    def inputs(self) -> Sequence[tf.TensorSpec]:
        """Returns the signature of a batch."""
        return [tf.TensorSpec([None, 8, 8], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label")]

    def build_graph(self, image: tf.Tensor, label: tf.Tensor) -> tf.Tensor:
        """Returns the cost of a batch."""
        hidden = tf.expand_dims(image, 3)
        with argscope(Conv2D, filters=self._channels, kernel_size=3, activation=tf.nn.relu):
            hidden = MaxPooling("pool0", Conv2D("conv0", hidden), 2)
            hidden = MaxPooling("pool1", Conv2D("conv1", hidden), 2)
        logits = FullyConnected("linear", hidden, 10)
        tf.nn.softmax(logits, name="probabilities")
        tf.reduce_mean(tf.cast(tf.nn.in_top_k(logits, label, 1), tf.float32), name="accuracy")
        return tf.losses.sparse_softmax_cross_entropy(label, logits)

    def optimizer(self) -> tf.train.Optimizer:
        """Returns Adam."""
        return tf.train.AdamOptimizer(3e-3)


def train(max_epoch: int, log_dir: str) -> float:
    """Trains, and returns the accuracy on held-out digits."""
    test = BatchData(Digits("test"), 100, remainder=True)
    config = TrainConfig(
        model=Classifier(),
        dataflow=BatchData(Digits("train"), 32),
        callbacks=[
            ModelSaver(keep_last=1),
            InferenceRunner(test, ScalarStats(["accuracy"])),
            MaxSaver("validation_accuracy"),
        ],
        max_epoch=max_epoch,
        log_dir=log_dir,
        seed=1,
    )
    trainer = SimpleTrainer(config)
    trainer.train()
    return float(trainer.monitors.get_latest("validation_accuracy"))


def predict(log_dir: str, images: np.ndarray) -> list[int]:
    """Returns the most likely digit of each image of float32 [n, 8, 8]."""
    config = PredictConfig(
        model=Classifier(),
        session_init=SaverRestore(f"{log_dir}/max-validation_accuracy"),
        input_names=["image"],
        output_names=["probabilities"],
    )
    with OfflinePredictor(config) as predictor:
        (probabilities,) = predictor(images)
    return [int(digit) for digit in probabilities.argmax(1)]


def main(max_epoch: int = 3, log_dir: str = "train_log/annotated_classifier") -> None:
    """Trains, and predicts ten held-out digits."""
    print(f"accuracy {train(max_epoch, log_dir):.3f}")
    images, labels = next(iter(BatchData(Digits("test"), 10)))
    print(f"digits {labels.tolist()}, predicted {predict(log_dir, images)}")


if __name__ == "__main__":
    main()
