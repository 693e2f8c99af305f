"""The residual networks, and the examples that train on CIFAR-10 without augmentors."""

import pickle
import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import TowerContext

# Parameters for 1000 classes, as the networks are commonly counted.
PARAMETERS = {18: 11_689_512, 34: 21_797_672, 50: 25_557_032, 101: 44_549_160, 152: 60_192_808}


@pytest.mark.slow
@pytest.mark.parametrize("depth", PARAMETERS)
def test_residual_networks_are_of_the_known_size(resnet_example, depth):
    with tf.Graph().as_default(), TowerContext("", is_training=True):
        logits = resnet_example.resnet(tf.placeholder(tf.float32, [None, 224, 224, 3]), depth, 1000)
        assert logits.shape.as_list() == [None, 1000]
        assert (
            sum(variable.shape.num_elements() for variable in tf.trainable_variables()) == PARAMETERS[depth]
        )


def test_preactivation_normalises_before_the_convolutions(resnet_example):
    with tf.Graph().as_default(), TowerContext("", is_training=True):
        resnet_example.resnet(tf.placeholder(tf.float32, [None, 32, 32, 3]), 18, 10, preact=True)
        names = {variable.op.name for variable in tf.trainable_variables()}
    assert {"conv0/bn/gamma", "group0/block1/preact/bn/gamma", "group3/bnlast/bn/gamma"} <= names
    assert not any("block0/preact" in name or name.endswith("block1/conv2/bn/gamma") for name in names)


@pytest.mark.slow
def test_the_convnet_learns_synthetic_pictures(run):
    output, _ = run("cifar_convnet.py", "--epochs", 2)
    assert float(re.search(r"best validation accuracy (\d\.\d{4})", output)[1]) > 0.5


@pytest.mark.slow
def test_the_convnet_reads_the_files_of_cifar(run, tmp_path):
    folder, rng = tmp_path / "cifar-10-batches-py", np.random.default_rng(0)
    folder.mkdir()
    for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        part = {
            b"data": rng.integers(0, 256, (8, 3072), np.uint8),
            b"labels": rng.integers(0, 10, 8).tolist(),
        }
        (folder / name).write_bytes(pickle.dumps(part))
    output, errors = run("cifar_convnet.py", "--data", folder, "--batch", 8, "--epochs", 1, "--bfloat16")
    assert "epoch 1/1, step 5: " in errors
    assert output.startswith("best validation accuracy ")
