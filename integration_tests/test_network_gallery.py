"""Networks for ImageNet are of the known size and train; weights load from files of each kind."""

import re

import cv2
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks.checkpoint import load_caffe
from towerpack_layers import TowerContext

# Parameters for 1000 classes, as the networks are commonly counted: module, network, size of the images.
PARAMETERS = {
    ("plain_networks", "alexnet", 227): 60_965_224,
    ("plain_networks", "vgg16", 224): 138_357_544,
    ("branched_networks", "inception_bn", 224): 11_285_224,
    ("branched_networks", "shufflenet_v1", 224): 1_865_728,
    ("branched_networks", "shufflenet_v2", 224): 2_278_604,
}
NETWORKS = ["alexnet", "vgg16", "vgg16_bn", "inception_bn", "shufflenet_v1", "shufflenet_v2"]


@pytest.mark.slow
@pytest.mark.parametrize(("network", "count"), PARAMETERS.items())
def test_networks_are_of_the_known_size(image_example, network, count):
    module, name, size = network
    with tf.Graph().as_default(), TowerContext("", is_training=True):
        image = tf.placeholder(tf.float32, [None, size, size, 3])
        assert getattr(image_example(module), name)(image, 1000).shape.as_list() == [None, 1000]
        assert sum(variable.shape.num_elements() for variable in tf.trainable_variables()) == count


@pytest.mark.slow
@pytest.mark.parametrize("network", NETWORKS)
def test_networks_train_on_random_numbers(run_image_example, network):
    options = ["--epochs", 1, "--size", 99, "--width", 16, "--batch", 2, "--classes", 10]
    line = run_image_example("imagenet_resnet.py", "--fake", "--model", network, *options)
    assert re.fullmatch(r"\d+ images/s", line)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_inception_reaches_its_figure(run_image_example):
    line = run_image_example("imagenet_resnet.py", "--model", "inception_bn", "--epochs", 5)
    assert float(line.removeprefix("accuracy ")) > 0.4


@pytest.mark.slow
def test_four_groups_train_on_mixed_images(run_image_example):
    options = ["--depth", 18, "--width", 4, "--mixup", "--epochs", 1]
    assert run_image_example("cifar10_resnet.py", *options).startswith("accuracy ")


@pytest.fixture
def one_class_is_certain(image_example, tmp_path):
    """Files of a narrow AlexNet that answers class 3 whatever it sees, by their kinds."""
    rng, shapes = np.random.default_rng(0), {}
    with tf.Graph().as_default(), TowerContext("", is_training=False):
        image = tf.placeholder(tf.float32, [None, 99, 99, 3])
        image_example("plain_networks").alexnet(image, 10, 8)
        shapes = {variable.op.name: variable.shape.as_list() for variable in tf.trainable_variables()}
    values = {name: rng.normal(0, 1e-3, shape).astype(np.float32) for name, shape in shapes.items()}
    values["fc8/b"][3] = 100
    np.savez(tmp_path / "weights.npz", **values)
    caffe = tmp_path / "weights.caffemodel"
    caffe.write_bytes(image_example("caffe_files").caffe_model(values))
    for name, value in load_caffe(caffe).items():
        np.testing.assert_array_equal(value, values[name])
    return {path.suffix: path for path in (tmp_path / "weights.npz", caffe)}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [".npz", ".caffemodel"])
def test_pictures_are_classified_by_given_weights(run_image_example, one_class_is_certain, tmp_path, kind):
    (tmp_path / "words.txt").write_text("".join(f"n{number:08} word {number}\n" for number in range(10)))
    options = ["--size", 99, "--width", 8, "--synset", tmp_path / "words.txt"]
    line = run_image_example("load_and_predict.py", "--load", one_class_is_certain[kind], *options)
    assert line.startswith("n00000003 word 3 1.000, ")


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_files_of_each_kind_predict_the_same(run_image_example):
    line = run_image_example("load_and_predict.py", "--epochs", 3)
    reached = re.fullmatch(r"accuracy ([01]\.\d{4}); the three files predict the same", line)
    assert float(reached[1]) > 0.25


@pytest.mark.slow
def test_joints_are_where_the_maps_are_highest(run_image_example, image_example, tmp_path):
    pose, width = image_example("pose_machine"), 4
    with tf.Graph().as_default(), TowerContext("", is_training=False):
        pose.PoseMachine(width).build_graph(tf.zeros([1, pose.SIZE, pose.SIZE, 3], tf.uint8))
        shapes = {variable.op.name: variable.shape.as_list() for variable in tf.trainable_variables()}
    weights = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    # The place of the person goes through all layers of the last stage as it is: one picture each.
    last = [f"Mconv{index}_stage6/W" for index in range(1, 8)]
    weights[last[0]][3, 3, -1, 0] = 1
    for name in last[1:]:
        weights[name][shapes[name][0] // 2, shapes[name][0] // 2, 0, :] = 1
    np.savez(tmp_path / "weights.npz", **weights)
    cv2.imwrite(str(tmp_path / "person.png"), np.full((60, 40, 3), 200, np.uint8))
    options = ["--load", tmp_path / "weights.npz", "--width", width]
    line = run_image_example("pose_machine.py", tmp_path / "person.png", *options)
    places = np.array([[int(number) for number in place] for place in re.findall(r"(\d+), (\d+)", line)])
    assert places.shape == (14, 2) and np.abs(places - pose.SIZE / 2).max() <= pose.STRIDE
    assert cv2.imread(str(tmp_path / "person.joints.png")).shape == (pose.SIZE, pose.SIZE, 3)


@pytest.mark.slow
def test_the_pose_machine_has_the_published_layers(image_example):
    with tf.Graph().as_default(), TowerContext("", is_training=False):
        pose = image_example("pose_machine")
        pose.PoseMachine().build_graph(tf.zeros([1, pose.SIZE, pose.SIZE, 3], tf.uint8))
        shapes = {variable.op.name: variable.shape.as_list() for variable in tf.trainable_variables()}
    assert shapes["conv4_7_CPM/W"] == [3, 3, 256, 128] and shapes["conv5_2_CPM/W"] == [1, 1, 512, 15]
    assert all(shapes[f"Mconv1_stage{stage}/W"] == [7, 7, 15 + 128 + 1, 128] for stage in range(2, 7))
