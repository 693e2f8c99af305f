"""Exported models give the predictor's results in ONNX Runtime and LiteRT."""

from pathlib import Path

import attrs
import numpy as np
import onnxruntime
import pytest
import tensorflow.compat.v1 as tf
from ai_edge_litert.interpreter import Interpreter

from towerpack_callbacks import EMA, ModelSaver
from towerpack_dataflow import BatchData
from towerpack_dataflow.datasets import Digits
from towerpack_layers import (
    LSTM,
    BatchNorm,
    Conv2D,
    Conv2DTranspose,
    FullyConnected,
    InstanceNorm,
    random_uniform,
)
from towerpack_trainers import (
    ExportError,
    ModelExporter,
    OfflinePredictor,
    PredictConfig,
    SaverRestore,
    SimpleTrainer,
    TrainConfig,
)
from towerpack_trainers.__main__ import main

pytestmark = pytest.mark.slow


def run_onnx(path, outputs, **arrays):
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(outputs, arrays)


def run_lite(path, outputs, **arrays):
    result = Interpreter(str(path)).get_signature_runner("serving_default")(**arrays)
    return [result[name] for name in outputs]


RUNTIMES = {".onnx": run_onnx, ".tflite": run_lite}


@pytest.fixture(scope="module")
def trained(demo, tmp_path_factory):
    """LeNet on digits after an epoch: its configuration with averaged weights, and its checkpoints."""
    log_dir = tmp_path_factory.mktemp("lenet") / "run"
    flow = BatchData(Digits("train"), 64)
    callbacks = [EMA(0.9), ModelSaver()]
    SimpleTrainer(
        TrainConfig(model=demo.LeNet(), dataflow=flow, callbacks=callbacks, max_epoch=1, log_dir=log_dir)
    ).train()
    config = PredictConfig(
        model=demo.LeNet(),
        session_init=SaverRestore(log_dir),
        input_names=["image"],
        output_names=["probabilities", "fc0/output"],
        ema=True,
    )
    return config, log_dir


@pytest.fixture(scope="module")
def images():
    """Digits that were not trained on."""
    return np.stack([image for image, _ in Digits("test")]).astype(np.float32)


@pytest.mark.parametrize("ending", RUNTIMES)
def test_lenet(trained, images, tmp_path, ending):
    config, _ = trained
    path = tmp_path / f"lenet{ending}"
    exporter = ModelExporter(config)
    (exporter.export_onnx if ending == ".onnx" else exporter.export_lite)(path)
    with OfflinePredictor(config) as predictor:
        for some in (images, images[:1]):
            found = RUNTIMES[ending](path, config.output_names, image=some)
            for one, other in zip(found, predictor(some), strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_the_command(demo, trained, images, tmp_path, monkeypatch, capsys):
    _, log_dir = trained
    monkeypatch.chdir(tmp_path)
    model = ["--model", "digits_lenet:LeNet", "--outputs", "probabilities", "--ema"]
    monkeypatch.syspath_prepend(Path(demo.__file__).parent)
    assert main(["export", str(log_dir), *model, "-o", "a.onnx", "-o", "a.tflite"]) == 0
    np.save("images.npy", images)
    assert main(["predict", str(log_dir), *model, "--inputs", "image=images.npy", "--batch-size", "100"]) == 0
    capsys.readouterr()
    with np.load("predictions.npz") as archive:
        for path in ("a.onnx", "a.tflite"):
            (found,) = RUNTIMES[path[1:]](path, ["probabilities"], image=images)
            np.testing.assert_allclose(found, archive["probabilities"], atol=1e-5)


def upsampled(x):
    hidden = Conv2D("conv", x, 4, 3, strides=2, activation=tf.nn.relu)
    hidden = InstanceNorm("norm", BatchNorm("bn", hidden))
    tf.identity(Conv2DTranspose("up", hidden, 3, 3, strides=2), name="out")


def generate(x):
    """A generator that draws `z` if it is not fed."""
    z = tf.placeholder_with_default(random_uniform("noise", [tf.shape(x)[0], 8]), [None, 8], name="z")
    hidden = tf.reshape(FullyConnected("fc", z, 16, activation=tf.nn.relu), [-1, 2, 2, 4])
    tf.identity(Conv2DTranspose("up", hidden, 1, 4, strides=2, activation=tf.nn.tanh), name="out")


def last_of_sequence(x):
    tf.identity(FullyConnected("fc", LSTM("rnn", x, 4)[:, -1], 2), name="out")


@pytest.mark.parametrize("ending", RUNTIMES)
@pytest.mark.parametrize(
    ("function", "shape", "fed"),
    [(upsampled, [8, 8, 3], "x"), (last_of_sequence, [5, 3], "x"), (generate, [8], "z")],
    ids=["images", "recurrent", "generator"],
)
def test_other_networks(tmp_path, function, shape, fed, ending):
    signature = [tf.TensorSpec([None, *shape], tf.float32, "x")]
    config = PredictConfig(
        tower_func=function, input_signature=signature, input_names=[fed], output_names=["out"]
    )
    ModelExporter(config).export_variables(tmp_path / "weights.npz")
    config = attrs.evolve(config, session_init=SaverRestore(tmp_path / "weights.npz"))
    path = tmp_path / f"model{ending}"
    exporter = ModelExporter(config)
    (exporter.export_onnx if ending == ".onnx" else exporter.export_lite)(path)
    x = np.random.default_rng(0).normal(size=(4, *shape)).astype(np.float32)
    with OfflinePredictor(config) as predictor:
        (expected,) = predictor(x)
    (found,) = RUNTIMES[ending](path, ["out"], **{fed: x})
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def gamma(x):
    tf.identity(tf.math.igamma(x, x), name="out")


def test_what_onnx_cannot_express(tmp_path):
    signature = [tf.TensorSpec([None], tf.float32, "x")]
    config = PredictConfig(tower_func=gamma, input_signature=signature, output_names=["out"])
    with pytest.raises(ExportError, match=r"ONNX cannot express this model: .*Igamma"):
        ModelExporter(config).export_onnx(tmp_path / "gamma.onnx")
    assert not list(tmp_path.iterdir())
