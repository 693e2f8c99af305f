"""Exported models are read back, and give the same results as the predictor."""

import subprocess
import sys
from types import SimpleNamespace

import attrs
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import LSTM, Conv2D, FullyConnected, LinearWrap, argscope
from towerpack_trainers import (
    DictRestore,
    ModelDesc,
    ModelExporter,
    OfflinePredictor,
    PredictConfig,
    SmartInit,
)

IMAGES = np.random.default_rng(3).normal(size=(5, 8, 8)).astype(np.float32)


class LeNet(ModelDesc):
    """For digits of 8 by 8, with layers that differ between training and prediction."""

    def inputs(self):
        return [tf.TensorSpec([None, 8, 8], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label")]

    def build_graph(self, image, label):
        with argscope(Conv2D, filters=8, kernel_size=3, activation=tf.nn.relu):
            logits = (
                LinearWrap(tf.expand_dims(image, 3))
                .Conv2D("conv0")
                .BatchNorm("bn0")
                .MaxPooling("pool0", 2)
                .Conv2D("conv1")
                .MaxPooling("pool1", 2)
                .FullyConnected("fc0", 16, activation=tf.nn.relu)
                .Dropout("dropout", rate=0.5)
                .FullyConnected("fc1", 10)()
            )
        tf.nn.softmax(logits, name="probabilities")
        tf.argmax(logits, 1, name="class")
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits)
        return tf.reduce_mean(loss, name="cost")


def random_values(config):
    """Values for all variables of a model, other than the initial ones."""
    numbers = np.random.default_rng(7)
    with OfflinePredictor(config) as predictor:
        variables = predictor.graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)
        shapes = {variable.op.name: variable.shape.as_list() for variable in variables}
    values = {name: numbers.uniform(0.2, 0.8, shape).astype(np.float32) for name, shape in shapes.items()}
    return {name: value - 0.5 if name.endswith("/W") else value for name, value in values.items()}


@pytest.fixture(scope="module")
def lenet():
    """A configuration with values, and the results of its predictor."""
    config = PredictConfig(model=LeNet(), output_names=["probabilities", "class:0"])
    values = random_values(config)
    config = attrs.evolve(config, session_init=DictRestore(values), input_names=["image"])
    with OfflinePredictor(config) as predictor:
        probabilities, classes = predictor(IMAGES)
    assert np.ptp(probabilities, axis=0).max() > 0.01  # they depend on the images
    return SimpleNamespace(config=config, values=values, probabilities=probabilities, classes=classes)


def run_saved_model(path, **arrays):
    loaded = tf.compat.v2.saved_model.load(str(path))
    function = loaded.signatures["serving_default"]
    return {name: value.numpy() for name, value in function(**arrays).items()}


def run_frozen_graph(path, fetches, feeds):
    with tf.Graph().as_default() as graph, tf.Session() as sess:
        tf.import_graph_def(tf.GraphDef.FromString(path.read_bytes()), name="")
        assert not any("Var" in op.type for op in graph.get_operations())
        return sess.run(fetches, feeds)


def run_lite(path, **arrays):
    runner = tf.compat.v2.lite.Interpreter(str(path)).get_signature_runner("serving_default")
    return runner(**arrays)


@pytest.mark.slow
def test_a_saved_model_in_eager_tensorflow(lenet, tmp_path):
    path = tmp_path / "models" / "lenet" / "1"
    ModelExporter(lenet.config).export_serving(path)
    for count in (5, 1, 0):
        result = run_saved_model(path, image=tf.constant(IMAGES[:count]))
        np.testing.assert_allclose(result["probabilities"], lenet.probabilities[:count], atol=1e-6)
        np.testing.assert_array_equal(result["class"], lenet.classes[:count])


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(300)  # it imports TensorFlow
def test_a_saved_model_for_the_tool_of_tensorflow(lenet, tmp_path):
    ModelExporter(lenet.config).export_serving(tmp_path / "lenet")
    np.save(tmp_path / "images.npy", IMAGES)
    words = ["run", "--dir", "lenet", "--tag_set", "serve", "--signature_def", "serving_default"]
    words += ["--inputs", "image=images.npy", "--outdir", "out"]
    command = [sys.executable, "-m", "tensorflow.python.tools.saved_model_cli", *words]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    found = np.load(tmp_path / "out" / "probabilities.npy")
    np.testing.assert_allclose(found, lenet.probabilities, atol=1e-6)


def test_a_saved_model_in_a_session_by_other_tags_and_signature(lenet, tmp_path):
    ModelExporter(lenet.config).export_serving(tmp_path / "1", ["serve", "cpu"], "predict")
    with tf.Graph().as_default(), tf.Session() as sess:
        meta_graph = tf.saved_model.load(sess, ["serve", "cpu"], str(tmp_path / "1"))
        function = meta_graph.signature_def["predict"]
        feeds = {function.inputs["image"].name: IMAGES}
        found = sess.run(function.outputs["probabilities"].name, feeds)
    np.testing.assert_allclose(found, lenet.probabilities, atol=1e-6)


def test_a_frozen_graph(lenet, tmp_path):
    ModelExporter(lenet.config).export_compact(tmp_path / "lenet.pb")
    fetches = ["probabilities:0", "class:0"]
    for count in (5, 1, 0):
        found = run_frozen_graph(tmp_path / "lenet.pb", fetches, {"image:0": IMAGES[:count]})
        np.testing.assert_allclose(found[0], lenet.probabilities[:count], atol=1e-6)
        np.testing.assert_array_equal(found[1], lenet.classes[:count])


@pytest.mark.slow
def test_a_model_of_lite(lenet, tmp_path):
    ModelExporter(lenet.config).export_lite(tmp_path / "lenet.tflite")
    for count in (5, 1):
        result = run_lite(tmp_path / "lenet.tflite", image=IMAGES[:count])
        np.testing.assert_allclose(result["probabilities"], lenet.probabilities[:count], atol=1e-5)
        np.testing.assert_array_equal(result["class"], lenet.classes[:count])


def test_variables(lenet, tmp_path):
    ModelExporter(lenet.config).export_variables(tmp_path / "lenet.npz")
    with np.load(tmp_path / "lenet.npz") as archive:
        assert sorted(archive.files) == sorted(lenet.values)
    init = SmartInit(tmp_path / "lenet.npz", allow=[])
    with OfflinePredictor(attrs.evolve(lenet.config, session_init=init)) as predictor:
        np.testing.assert_array_equal(predictor(IMAGES)[0], lenet.probabilities)


@pytest.mark.parametrize("by_exporter", [True, False])
def test_averaged_weights(lenet, tmp_path, by_exporter):
    averages = {f"{name}/ExponentialMovingAverage": value / 2 for name, value in lenet.values.items()}
    config = attrs.evolve(lenet.config, session_init=DictRestore({**lenet.values, **averages}))
    averaged = attrs.evolve(config, ema=True)
    exporter = ModelExporter(config, ema=True) if by_exporter else ModelExporter(averaged)
    exporter.export_compact(tmp_path / "lenet.pb")
    with OfflinePredictor(averaged) as predictor:
        expected = predictor(IMAGES)[0]
    assert not np.allclose(expected, lenet.probabilities)
    found = run_frozen_graph(tmp_path / "lenet.pb", "probabilities:0", {"image:0": IMAGES})
    np.testing.assert_allclose(found, expected, atol=1e-6)


def recurrent(x):
    """A loop that reads variables, and a condition."""
    last = LSTM("rnn", x, 4)[:, -1]
    twice = tf.cond(tf.reduce_sum(last) > 0, lambda: FullyConnected("fc", last, 2), lambda: last[:, :2] * 2)
    tf.identity(twice, name="out")


@pytest.mark.slow
def test_loops_and_conditions(tmp_path):
    config = PredictConfig(
        tower_func=recurrent,
        input_signature=[tf.TensorSpec([None, 3, 2], tf.float32, "x")],
        output_names=["out"],
    )
    config = attrs.evolve(config, session_init=DictRestore(random_values(config)))
    x = np.random.default_rng(0).normal(size=(4, 3, 2)).astype(np.float32)
    with OfflinePredictor(config) as predictor:
        (expected,) = predictor(x)
    exporter = ModelExporter(config)
    exporter.export_compact(tmp_path / "rnn.pb")
    found = run_frozen_graph(tmp_path / "rnn.pb", "out:0", {"x:0": x})
    np.testing.assert_allclose(found, expected, atol=1e-6)
    exporter.export_serving(tmp_path / "rnn")
    np.testing.assert_allclose(
        run_saved_model(tmp_path / "rnn", x=tf.constant(x))["out"], expected, atol=1e-6
    )


def translate(word):
    keys, values = tf.constant(["one", "two"]), tf.constant([1, 2])
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), -1)
    tf.identity(table.lookup(word), name="number")


def test_a_table_and_no_variable(tmp_path):
    signature = [tf.TensorSpec([None], tf.string, "word")]
    config = PredictConfig(tower_func=translate, input_signature=signature, output_names=["number"])
    ModelExporter(config).export_serving(tmp_path / "table")
    result = run_saved_model(tmp_path / "table", word=tf.constant(["two", "one", "ten"]))
    np.testing.assert_array_equal(result["number"], [2, 1, -1])


def test_a_tensor_inside_as_the_input(lenet, tmp_path):
    config = attrs.evolve(lenet.config, input_names=["fc0/output"], output_names=["fc1/output"])
    exporter, hidden = ModelExporter(config), np.ones([2, 16], np.float32)
    with OfflinePredictor(config) as predictor:
        (expected,) = predictor(hidden)
    exporter.export_serving(tmp_path / "head")
    result = run_saved_model(tmp_path / "head", **{"fc0/output": tf.constant(hidden)})
    np.testing.assert_allclose(result["fc1/output"], expected, atol=1e-6)
    exporter.export_compact(tmp_path / "head.pb")
    assert b"conv0" not in (tmp_path / "head.pb").read_bytes()
    found = run_frozen_graph(tmp_path / "head.pb", "fc1/output:0", {"fc0/output:0": hidden})
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_inputs_are_by_default_those_that_the_outputs_depend_on(lenet, tmp_path):
    exporter = ModelExporter(attrs.evolve(lenet.config, input_names=None))
    exporter.export_serving(tmp_path / "lenet")
    result = run_saved_model(tmp_path / "lenet", image=tf.constant(IMAGES))
    np.testing.assert_allclose(result["probabilities"], lenet.probabilities, atol=1e-6)
