"""The commands on a trained model, as users type them."""

import io
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks.checkpoint import write_checkpoint
from towerpack_trainers.__main__ import main

# No other test imports a module of this name.
MODULE = """
import tensorflow.compat.v1 as tf
from towerpack_layers import FullyConnected
from towerpack_trainers import ModelDesc

class Model(ModelDesc):
    def inputs(self):
        return [tf.TensorSpec([None, 2], tf.float32, "x"), tf.TensorSpec([], tf.float32, "scale")]
    def build_graph(self, x, scale):
        tf.as_string(x, name="words")
        out = tf.multiply(FullyConnected("fc", x, 3), scale, name="out")
        return tf.reduce_mean(out, name="cost")

class WithArgument(Model):
    def __init__(self, size):
        self.size = size

number = 3
"""
MODEL = ["--model", "model_of_cli_tests:Model"]
OUT = ["--outputs", "out"]

EXPORT = ["export", "run", *MODEL, *OUT]
PREDICT = ["predict", "run", *MODEL, *OUT, "--inputs", "data.npz"]

ERRORS = [
    (["export", "nowhere", *MODEL, *OUT, "-o", "a"], "there is no checkpoint nowhere"),
    (["export", "other", *MODEL, *OUT, "-o", "a"], "fc/W"),
    (["export", "run", "--model", "no_such:Model", *OUT, "-o", "a"], "no_such cannot be imported: No module"),
    (
        ["export", "run", "--model", "model_of_cli_tests:Modell", *OUT, "-o", "a"],
        "model_of_cli_tests has no Modell; close: Model",
    ),
    (
        ["export", "run", "--model", "model_of_cli_tests:WithArgument", *OUT, "-o", "a"],
        "was called without arguments: .*Name a function without arguments",
    ),
    (
        ["export", "run", "--model", "model_of_cli_tests:number", *OUT, "-o", "a"],
        "model_of_cli_tests:number returns int; expected a ModelDesc",
    ),
    ([*EXPORT[:4], "--outputs", "outs", "-o", "a"], "no tensor 'outs:0'. Close names are: out"),
    ([*EXPORT, "--inputs", "x", "-o", "a"], "outputs out need the input scale, which is not in"),
    ([*EXPORT, "--ema", "-o", "a"], "average"),
    ([*EXPORT, "-o", "data.npz"], r"data.npz exists. .*--overwrite"),
    ([*PREDICT[:-1], "nowhere.npz"], "No such file or directory: 'nowhere.npz'"),
    ([*PREDICT[:-1], "broken.npz"], "broken.npz cannot be read"),
    ([*PREDICT[:-1], "cut.npz"], "cut.npz cannot be read: File is not a zip file"),
    ([*PREDICT[:-1], "y=data.npz"], "data.npz has no array y; it has: x, scale"),
    ([*PREDICT[:-1], "x=flat.npy", "scale=data.npz"], "the model rejects these arrays: .*'x'"),
    ([*PREDICT[:-1], "data.npz", "x=flat.npy"], "the input x is given twice"),
    ([*PREDICT[:-1], "x=data.npz", "scale=flat.npy"], "different numbers of examples: x: 5, scale: 4"),
    ([*PREDICT, "--outputs", "cost", "--batch-size", "2"], "the output cost has no value for each example"),
    ([*PREDICT, "--outputs", "words"], "received masked arrays, or arrays of objects or text: words"),
    (["describe", *MODEL, "--outputs", "outs"], "no tensor 'outs:0'"),
]

MISUSES = [
    ([], "the following arguments are required: COMMAND"),
    (["export", "run"], "the following arguments are required: --model, --outputs, -o/--output"),
    (["export", "run", "--model", "model.py", *OUT, "-o", "a"], "expected package.module:Class"),
    ([*EXPORT, "-o", "a.h5"], r"ends in .pb, .tflite, .onnx, .npz, or without an ending; received 'a.h5'"),
    ([*PREDICT[:-1], "data.npy"], r"expected NAME=FILE.npy, NAME=FILE.npz or FILE.npz; received 'data.npy'"),
    ([*PREDICT, "--batch-size", "0"], "expected a whole number of at least 1; received '0'"),
    ([*PREDICT, "-o", "out.csv"], "expected a name that ends in .npz; received 'out.csv'"),
    (["describe", *MODEL], "the following arguments are required: --outputs"),
]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A directory with a checkpoint, the model's module, and data."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "model_of_cli_tests", raising=False)
    (tmp_path / "model_of_cli_tests.py").write_text(MODULE)
    values = {"fc/W": np.arange(6, dtype=np.float32).reshape(2, 3), "fc/b": np.ones(3, np.float32)}
    write_checkpoint(tmp_path / "run" / "model-10", values, {})
    write_checkpoint(tmp_path / "other" / "model-10", {"W": np.ones(1)}, {})
    np.savez("data.npz", x=np.arange(10, dtype=np.float32).reshape(5, 2), scale=np.float32(2))
    np.save("x.npy", np.arange(10, dtype=np.float32).reshape(5, 2))
    np.save("flat.npy", np.ones(4, np.float32))
    (tmp_path / "broken.npz").write_text("no archive")
    (tmp_path / "cut.npz").write_bytes((tmp_path / "data.npz").read_bytes()[:-9])
    return tmp_path


EXPECTED = 2 * (np.arange(10.0).reshape(5, 2) @ np.arange(6.0).reshape(2, 3) + 1)


@pytest.mark.parametrize(("arguments", "message"), ERRORS, ids=[" ".join(case[0]) for case in ERRORS])
def test_a_failure_is_one_line_and_status_1(place, capsys, arguments, message):
    before = sorted(os.listdir(place))
    assert main(arguments) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.search(message, captured.err.splitlines()[-1])
    assert captured.err.count("error: ") == 1 and "Traceback" not in captured.err
    assert set(os.listdir(place)) <= {*before, "__pycache__"}


@pytest.mark.parametrize(("arguments", "message"), MISUSES, ids=[" ".join(case[0]) for case in MISUSES])
def test_invalid_arguments_have_status_2(place, capsys, arguments, message):
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    assert re.search(message, capsys.readouterr().err)


def test_several_formats_at_once(place, capsys):
    assert main([*EXPORT, "-o", "out/1.2", "-o", "out/model.pb", "-o", "weights.NPZ"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [re.sub(r"[\d,]+ bytes", "… bytes", line) for line in lines] == [
        "out/1.2: SavedModel, … bytes",
        "out/model.pb: frozen graph, … bytes",
        "weights.NPZ: variables, … bytes",
    ]
    loaded = tf.compat.v2.saved_model.load("out/1.2")
    function = loaded.signatures["serving_default"]
    result = function(x=tf.constant(np.load("x.npy")), scale=tf.constant(2.0))
    np.testing.assert_allclose(result["out"], EXPECTED)
    assert main([*EXPORT, "-o", "out/model.pb", "--overwrite"]) == 0


@pytest.mark.parametrize("inputs", [["data.npz"], ["x=x.npy", "scale=data.npz"]], ids=["one", "two"])
@pytest.mark.parametrize("size", ["2", "5", "256"])
def test_predictions_in_batches(place, capsys, inputs, size):
    arguments = ["predict", "run/model-10", *MODEL, *OUT, "--inputs", *inputs, "--batch-size", size]
    assert main([*arguments, "-o", "new/out.npz"]) == 0
    assert capsys.readouterr().out == "new/out.npz: out of 5 examples\n"
    with np.load("new/out.npz") as archive:
        assert archive.files == ["out"]
        np.testing.assert_allclose(archive["out"], EXPECTED)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("arguments", "bar"),
    [
        ([*PREDICT, "--batch-size", "2"], "predict: .* 3/3 "),
        ([*EXPORT, "-o", "a.pb", "-o", "a.npz"], "export: .* 2/2 .*variables"),
        (PREDICT, None),
    ],
    ids=["predict", "export", "one batch"],
)
def test_progress_on_a_terminal(place, monkeypatch, arguments, bar):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert main(arguments) == 0
    shown = terminal.getvalue().split("\r")[-1]
    assert re.search(bar, shown) if bar else shown == ""


def test_predictions_of_one_batch_may_be_any_tensor(place, capsys):
    assert main([*PREDICT, "--outputs", "cost", "fc/W"]) == 0
    with np.load("predictions.npz") as archive:
        np.testing.assert_allclose(archive["cost"], EXPECTED.mean())
        np.testing.assert_array_equal(archive["fc/W"], np.arange(6).reshape(2, 3))


def test_predictions_of_no_examples(place, capsys):
    np.save("none.npy", np.zeros([0, 2], np.float32))
    assert main([*PREDICT[:-1], "x=none.npy", "scale=data.npz"]) == 0
    with np.load("predictions.npz") as archive:
        assert archive["out"].shape == (0, 3)


def test_describe_lists_operations(place, capsys):
    assert main(["describe", *MODEL, "--outputs", "out"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.split(r"  +", lines[0]) == ["name", "shape", "elements", "dtype", "FLOPs"]
    assert re.split(r"  +", lines[2]) == ["fc/W", "(2, 3)", "6", "float32", "12"]
    assert lines[-2].startswith("2 trainable variables, 9 elements")
    assert lines[-1].startswith("forward: 12 FLOPs")


def test_an_error_of_the_model_has_its_traceback(place):
    (place / "model_of_cli_tests.py").write_text(MODULE.replace("FullyConnected(", "FullyConected("))
    with pytest.raises(NameError, match="FullyConected"):
        main(["describe", *MODEL, "--outputs", "out"])


@pytest.mark.slow
@pytest.mark.timeout(300)  # it imports TensorFlow
def test_the_command_finds_modules_where_it_is_started(place):
    command = [sys.executable, "-m", "towerpack_trainers", *EXPORT, "-o", "model.pb", "-o", "weights.npz"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("model.pb: frozen graph")
    assert "deprecated" not in done.stderr
    assert os.path.exists("model.pb")


@pytest.mark.parametrize("command", ["launch", "export", "predict", "describe"])
def test_each_command_has_help(capsys, command):
    with pytest.raises(SystemExit) as exit_:
        main([command, "--help"])
    assert exit_.value.code == 0
    out = capsys.readouterr().out
    assert command == "launch" or ("MODULE:CLASS" in out and "--outputs" in out)
