"""The residual networks, and the examples that train on CIFAR-10 without augmentors."""

import io
import re
import tarfile

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import TowerContext

# Parameters for 1000 classes, as the networks are commonly counted.
PARAMETERS = {18: 11_689_512, 34: 21_797_672, 50: 25_557_032, 101: 44_549_160, 152: 60_192_808}


@pytest.mark.slow
@pytest.mark.parametrize(
    "depth", [18, 34, 50, *(pytest.param(depth, marks=pytest.mark.long) for depth in (101, 152))]
)
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


@pytest.mark.long
@pytest.mark.slow
def test_the_convnet_learns_synthetic_pictures(run):
    output, _ = run("cifar_convnet.py", "--epochs", 2)
    assert float(re.search(r"best validation accuracy (\d\.\d{4})", output)[1]) > 0.5


@pytest.mark.long
@pytest.mark.slow
def test_the_convnet_reads_the_archive_of_cifar(run, tmp_path):
    rng = np.random.default_rng(0)
    labelled = [rng.integers(0, 10, (8, 1), np.uint8), rng.integers(0, 256, (8, 3072), np.uint8)]
    batch = np.concatenate(labelled, axis=1).tobytes()
    names = [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]
    with tarfile.open(tmp_path / "cifar-10-binary.tar.gz", "w:gz") as archive:
        for name, content in [*((name, batch) for name in names), ("batches.meta.txt", b"cat\ndog\n")]:
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    output, errors = run("cifar_convnet.py", "--data", tmp_path, "--batch", 8, "--epochs", 1, "--bfloat16")
    assert "epoch 1/1, step 5: " in errors
    assert output.startswith("best validation accuracy ")
