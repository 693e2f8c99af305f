"""Published weights: the networks of `examples/zoo` equal those of PyTorch, and classify real pictures."""

import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import cv2
import numpy as np
import pytest
import skimage.data
import tensorflow.compat.v1 as tf

sys.path.insert(0, str(Path(__file__).parent.parent / "examples" / "zoo"))
import classify
import efficientnet_lite
import fine_tune
import gpt2
import vit

from towerpack_callbacks import CheckpointError
from towerpack_callbacks.checkpoint import load_variables, load_weights
from towerpack_dataflow import DataFromList
from towerpack_layers import Dropout, FullyConnected, TowerContext
from towerpack_trainers import (
    ModelExporter,
    OfflinePredictor,
    PredictConfig,
    SaverRestore,
    SimpleTrainer,
    SmartInit,
    TrainConfig,
)

HERE = Path(__file__).parent
# Numbers of ImageNet's classes that name the object.
PICTURES = {"chelsea": {281, 282, 285}, "coffee": {967, 504}, "rocket": {657, 812}}
PUBLISHED = ["lite0", "lite1", "lite2"]


def lite(image, variant):
    """Returns the logits of an EfficientNet-Lite."""
    x = efficientnet_lite.features(image, variant)
    return FullyConnected("linear", Dropout("dropout", x, rate=0.2), 1000)


NETWORKS = {
    **classify.NETWORKS,
    "vit_b_16": (vit.vit, vit.rules("0", "3")),
    **{
        f"efficientnet-{variant}": (partial(lite, variant=variant), efficientnet_lite.RULES)
        for variant in efficientnet_lite.VARIANTS
    },
    "gpt2": (partial(gpt2.gpt2, vocabulary=1000, longest=64), gpt2.rules("transformer.")),
}
COMPARED = [
    *["resnet18", "resnet50", "mobilenet_v2", "mobilenet_v3_large", "mobilenet_v3_small", "vit_b_16", "gpt2"],
    *[f"efficientnet-{variant}" for variant in efficientnet_lite.VARIANTS],
]
# The graph has no layer for positions, and the logits for the layer after the decoder.
NO_LAYER = {"transformer.wpe", "lm_head"}


@pytest.fixture
def torch_files(tmp_path):
    """Writes the weights of a network of PyTorch and the results of its layers; returns their folder."""

    def write(name):
        subprocess.run([sys.executable, HERE / "torch_networks.py", name, tmp_path], check=True, timeout=250)
        return tmp_path

    yield write
    shutil.rmtree(tmp_path)  # up to 400 MB


def renamed(folder, rules, weights):
    """Returns the name of the variable of each weight, by rules."""
    numbers = {
        name: np.full([1] * values.ndim, number) for number, (name, values) in enumerate(weights.items())
    }
    np.savez(folder / "numbers.npz", **numbers)
    names = list(numbers)
    found = load_weights(folder / "numbers.npz", rules)
    return {names[number.item()]: variable for variable, number in found.items()}


def scopes_of(results, variables):
    """Returns the scope in the graph of each layer of PyTorch with a result, by its name."""
    scopes = {
        name.removesuffix(".weight"): variable.rpartition("/")[0]
        for name, variable in variables.items()
        if name.endswith(".weight")
    }
    found = {name: scopes[name] for name in results if name not in NO_LAYER}
    # A normalisation inside of a convolution has a tensor; the convolution before it has none.
    return {name: scope for name, scope in found.items() if f"{scope}/bn" not in found.values()}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPARED)
def test_each_layer_equals_that_of_pytorch(torch_files, name):
    network, rules = NETWORKS[name]
    folder = torch_files(name)
    with np.load(folder / "layers.npz") as archive:
        results = dict(archive)
    given = results.pop("input")
    given = given.astype(np.int32) if given.ndim == 2 else channels_last(given)
    scopes = scopes_of(results, renamed(folder, rules, load_variables(folder / "weights.pth")))
    config = PredictConfig(
        tower_func=lambda given: tf.identity(network(given), name="logits"),
        input_signature=[tf.TensorSpec([None, *given.shape[1:]], given.dtype, "given")],
        # Each variable needs a value, and each value of the file is used.
        session_init=SmartInit(load_weights(folder / "weights.pth", rules), allow=[]),
        output_names=["logits", *(f"{scope}/output" for scope in scopes.values())],
    )
    with OfflinePredictor(config) as predictor:
        logits, *found = predictor(given)
    last = list(results)[-1]
    for layer, one in [(last, logits), *zip(scopes, found, strict=True)]:
        expected = channels_last(results[layer]).reshape(one.shape)
        difference = np.abs(one - expected).max() / np.abs(expected).max()
        assert difference < 1e-5, layer


def channels_last(x):
    """Returns images with the axes of TensorFlow; other arrays are returned unchanged."""
    return x.transpose(0, 2, 3, 1) if x.ndim == 4 else x


def test_gpt2_has_the_published_size():
    with tf.Graph().as_default(), TowerContext("", is_training=False):
        logits = gpt2.gpt2(tf.placeholder(tf.int32, [None, None]))
        assert logits.shape.as_list() == [None, None, 50257]
        assert sum(variable.shape.num_elements() for variable in tf.trainable_variables()) == 124_439_808


@pytest.mark.slow
def test_a_decoder_learns_a_text(tmp_path):
    shape = {"layers": 2, "channels": 32, "heads": 4, "vocabulary": 10, "longest": 16}
    text = np.arange(40) % 10
    batch = [np.stack([text[start : start + 16] for start in range(10)]).astype(np.int32)]
    config = TrainConfig(
        model=gpt2.GPT2(**shape),
        dataflow=DataFromList([batch] * 100),
        max_epoch=3,
        log_dir=tmp_path / "log",
        seed=1,
    )
    trainer = SimpleTrainer(config)
    trainer.train()
    # A uniform guess costs 2.3.
    assert trainer.monitors.get_latest("cost") < 0.5


@pytest.mark.slow
def test_pictures_are_classified_with_a_file_of_torchvision(torch_files, capsys):
    folder = torch_files("mobilenet_v3_small")
    picture = folder / "chelsea.png"
    cv2.imwrite(str(picture), skimage.data.chelsea()[..., ::-1])
    weights = str(folder / "weights.pth")
    classify.main([str(picture), "--network", "mobilenet_v3_small", "--weights", weights])
    line = capsys.readouterr().out.splitlines()[-1]
    assert re.fullmatch(rf"{picture}: (\d+ 0\.\d{{3}}(, )?){{5}}", line), line


@pytest.mark.parametrize("variant", PUBLISHED)
def test_real_pictures_are_classified_with_published_weights(variant):
    size = efficientnet_lite.VARIANTS[variant][2]
    images = [efficientnet_lite.central_square(getattr(skimage.data, name)(), size) for name in PICTURES]
    weights = efficientnet_lite.published(variant)
    found = efficientnet_lite.predict(np.stack(images), variant, weights)
    for (name, classes), probabilities in zip(PICTURES.items(), found, strict=True):
        # Lite2 in PyTorch, too, takes the rocket on its pad rather for a drilling platform.
        rank = 1 if (variant, name) == ("lite2", "rocket") else 0
        assert int(np.argsort(-probabilities)[rank]) in classes, name
        assert abs(probabilities.sum() - 1) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("ending", [".onnx", ".tflite"])
def test_exported_weights_give_equal_logits(tmp_path, ending):
    config = PredictConfig(
        model=efficientnet_lite.EfficientNetLite(),
        session_init=SmartInit(load_weights(efficientnet_lite.published("lite0"), efficientnet_lite.RULES)),
        input_names=["image"],
        output_names=["logits"],
    )
    pictures = [getattr(skimage.data, name)() for name in PICTURES]
    images = np.stack([efficientnet_lite.central_square(picture, 224) for picture in pictures])
    with OfflinePredictor(config) as predictor:
        (expected,) = predictor(images)
    path = tmp_path / f"lite0{ending}"
    exporter = ModelExporter(config)
    (exporter.export_onnx if ending == ".onnx" else exporter.export_lite)(path)
    found = results_of_file(path, "logits", images)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def results_of_file(path, output, images):
    """Returns the results of an exported model, in ONNX Runtime or LiteRT."""
    # Only the session that compares exported models has these.
    if path.suffix == ".onnx":
        import onnxruntime

        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        return session.run([output], {"image": images})[0]
    from ai_edge_litert.interpreter import Interpreter

    return Interpreter(str(path)).get_signature_runner("serving_default")(image=images)[output]


FEW = ["--size", "96", "--head-epochs", "2", "--epochs", "1", "--workers", "1", "--log-dir"]


@pytest.mark.slow
@pytest.mark.parametrize("precision", [[], ["--mixed"]], ids=["float32", "bfloat16"])
def test_new_classes_are_told_apart(tmp_path, capsys, precision):
    fine_tune.main([*FEW, str(tmp_path / "log"), *precision])
    line = capsys.readouterr().out.splitlines()[-1]
    assert float(line.removeprefix("accuracy ")) > 0.8, line


@pytest.mark.slow
def test_a_fine_tuned_network_is_exported(tmp_path):
    paths = [tmp_path / "model.onnx", tmp_path / "model.tflite"]
    exports = [option for path in paths for option in ("--export", str(path))]
    fine_tune.main([*FEW, str(tmp_path / "log"), *exports])
    images = np.stack([cv2.resize(getattr(skimage.data, name)(), (96, 96)) for name in PICTURES])
    config = PredictConfig(
        model=fine_tune.FineTuned(len(fine_tune.PHOTOGRAPHS), 96),
        session_init=SaverRestore(tmp_path / "log" / "all" / "latest"),
        input_names=["image"],
        output_names=["probabilities"],
        ema=True,
    )
    with OfflinePredictor(config) as predictor:
        (expected,) = predictor(images)
    for path in paths:
        np.testing.assert_allclose(results_of_file(path, "probabilities", images), expected, atol=1e-5)


def test_each_weight_is_accounted_for():
    rules = [rule for rule in efficientnet_lite.RULES if rule[0] != "_fc.bias"]
    with pytest.raises(CheckpointError, match="no rule matches 1 of its weights"):
        load_weights(efficientnet_lite.published("lite0"), rules)


@pytest.mark.parametrize("variant", efficientnet_lite.VARIANTS)
def test_channels_and_blocks_of_the_variants(variant):
    blocks = list(efficientnet_lite.blocks(variant))
    counts = {"lite0": 16, "lite1": 21, "lite2": 21, "lite3": 24, "lite4": 30}
    last = {"lite0": 320, "lite1": 320, "lite2": 352, "lite3": 384, "lite4": 448}
    assert (len(blocks), blocks[-1][-1]) == (counts[variant], last[variant])
