"""The multi-device graph of Towerpack in a custom loop: no trainer, no callbacks.

    python own_loop_multi_gpu.py                          all GPUs of this host, or the CPU
    python own_loop_multi_gpu.py --devices /cpu:0 /cpu:1  two virtual CPU devices

The builder adds one replica of the model per device, their gradients and the update, and returns an op. A
plain TensorFlow loop runs the op.
"""

import argparse

import tensorflow.compat.v1 as tf

from towerpack_dataflow import BatchData
from towerpack_dataflow.datasets import Digits
from towerpack_inputsource import QueueInput
from towerpack_layers import Conv2D, LinearWrap, argscope
from towerpack_trainers import SyncMultiGPUReplicatedBuilder, default_session_config

INPUTS = [tf.TensorSpec([None, 8, 8], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label")]


def network(image: tf.Tensor, label: tf.Tensor) -> tf.Tensor:
    """Adds one replica, and returns its cost."""
    with argscope(Conv2D, filters=16, kernel_size=3, activation=tf.nn.relu):
        logits = (
            LinearWrap(tf.expand_dims(image, 3))
            .Conv2D("conv0")
            .MaxPooling("pool0", 2)
            .Conv2D("conv1")
            .MaxPooling("pool1", 2)
            .FullyConnected("fc0", 64, activation=tf.nn.relu)
            .FullyConnected("fc1", 10)()
        )
    correct = tf.equal(tf.argmax(logits, 1, output_type=tf.int32), label)
    tf.reduce_mean(tf.cast(correct, tf.float32), name="accuracy")
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits)
    return tf.reduce_mean(loss, name="cost")


def train(devices: list[str], steps: int) -> float:
    """Trains, and returns the accuracy on the last batches."""
    with tf.Graph().as_default():
        source = QueueInput(BatchData(Digits("train"), 32))
        source.setup(INPUTS)
        builder = SyncMultiGPUReplicatedBuilder(devices)
        train_op = builder.build(network, source.get_input_tensors, tf.train.AdamOptimizer(2e-3))
        accuracy = tf.add_n([tower.get_tensors(["accuracy"])[0] for tower in builder.towers]) / len(devices)

        hooks = [*source.hooks(), *builder.hooks()]
        config = default_session_config(devices)
        recent = 0.0
        with tf.train.MonitoredTrainingSession(hooks=hooks, config=config) as session:
            for step in range(1, steps + 1):
                _, now = session.run([train_op, accuracy])
                recent += (now - recent) / min(step, 20)
                if step % 50 == 0:
                    print(f"step {step}: accuracy {recent:.3f} on {len(devices)} devices", flush=True)
    return recent


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description="several devices, and a custom loop")
    gpus = [f"/gpu:{index}" for index in range(len(tf.config.list_physical_devices("GPU")))]
    parser.add_argument("--devices", nargs="+", default=gpus or ["/cpu:0"], help="one per replica")
    parser.add_argument("--steps", type=int, default=300, help="number of training steps")
    args = parser.parse_args()
    print(f"final accuracy {train(args.devices, args.steps):.3f}")


if __name__ == "__main__":
    main()
