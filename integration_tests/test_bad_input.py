"""Mistakes of users: each error contains the received value, the expected one, and a remedy."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import CheckpointError, MaxSaver, ModelSaver, StatisticError
from towerpack_dataflow import BatchData, DataFromGenerator, DataFromList, MapData, MapDataComponent
from towerpack_dataflow.datasets import Digits
from towerpack_inputsource import QueueInput
from towerpack_layers import Conv2D, FullyConnected, LinearWrap, argscope
from towerpack_trainers import (
    ConfigError,
    ModelDesc,
    ModelError,
    RestoreError,
    SaverRestore,
    SimpleTrainer,
    SmartInit,
    TrainConfig,
)


class Model(ModelDesc):
    """One layer; `change` introduces a mistake into its logits or cost."""

    def __init__(self, logits=lambda x: x, cost=lambda cost: cost, size=10):
        self.change_logits, self.change_cost, self.size = logits, cost, size

    def inputs(self):
        return [tf.TensorSpec([None, 8, 8], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label")]

    def build_graph(self, image, label):
        logits = self.change_logits(FullyConnected("fc", image, self.size))
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits)
        return self.change_cost(tf.reduce_mean(loss, name="cost"))

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.1)


def digits():
    return Digits("train", shuffle=False)


def train(**changes):
    values = {
        "model": Model(),
        "dataflow": BatchData(digits(), 32),
        "max_epoch": 1,
        "log_dir": None,
        "monitors": [],
    }
    values.update(changes)
    SimpleTrainer(TrainConfig(**values, extra_callbacks=[])).train()


# ---- where the data comes from


def test_both_dataflow_and_data():
    with pytest.raises(
        ConfigError, match=r"TrainConfig received both dataflow= and data=; give only one of them"
    ):
        train(data=QueueInput(BatchData(digits(), 32)))


def test_neither_dataflow_nor_data():
    message = (
        r"a model but neither dataflow= nor data=. Give a DataFlow as dataflow=, or an InputSource as data="
    )
    with pytest.raises(ConfigError, match=message):
        train(dataflow=None)


def test_no_length_and_no_steps_per_epoch():
    def images():
        yield [np.zeros([1, 8, 8], np.float32), np.zeros(1, np.int32)]

    message = r"no steps_per_epoch, and the length of one pass of the data is unknown. Set TrainConfig\(steps"
    with pytest.raises(ConfigError, match=message):
        train(dataflow=DataFromGenerator(images))
    train(dataflow=DataFromGenerator(images), steps_per_epoch=2)


# ---- datapoints


def spoil(index, change):
    """The digits, in batches of one, with another datapoint at one index."""
    datapoints = [[image[None], np.array([label], np.int32)] for image, label in list(digits())[: index + 3]]
    datapoints[index] = change(*datapoints[index])
    return DataFromList(datapoints, shuffle=False)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            lambda image, label: [image, label, 1],
            ValueError,
            r"Datapoint 7 \(number 7 of pass 0, all from 0\): received 3 components, declared are 2",
        ),
        (
            lambda image, label: [image[:, :7], label],
            ValueError,
            r"Datapoint 7 .*component 0 \('image'\): received shape \(1, 7, 8\), declared is \(None, 8, 8\)",
        ),
        (
            lambda image, label: [image.astype(np.float64), label],
            TypeError,
            r"Datapoint 7 .*component 0 \('image'\): received dtype float64, declared is float32. Convert",
        ),
        (
            lambda image, label: [image, label.astype(np.int64) + 2**40],
            TypeError,
            r"Datapoint 7 .*component 1 \('label'\): received \d+, which is not a value of the declared",
        ),
        (
            lambda image, label: {"image": image, "lable": label},
            ValueError,
            r"Datapoint 7 .*received a dict with the keys \['image', 'lable'\], declared are \['image'",
        ),
        (
            lambda image, label: image,
            ValueError,
            r"Datapoint 7 .*received ndarray instead of a list, tuple or dict of components",
        ),
    ],
    ids=["number", "shape", "dtype", "label dtype", "keys", "bare"],
)
def test_a_datapoint_that_does_not_fit(change, error, message):
    with pytest.raises(error, match=message):
        train(dataflow=spoil(7, change))


def test_a_ragged_batch():
    uneven = MapData(digits(), lambda dp: [dp[0][: 7 + int(dp[1] != 3)], dp[1]])
    message = r"datapoint 3 of the pass has shape \(7, 8\) in component 0, and the batch began with \(8, 8\)"
    with pytest.raises(ValueError, match=message):
        train(dataflow=BatchData(uneven, 32))


class BadImageError(Exception):
    """The user's own error."""


def test_an_error_in_the_flow_is_raised_as_it_is():
    def decode(image):
        if image[0, 5] > 0.9:
            raise BadImageError("cannot decode it")
        return image

    with pytest.raises(BadImageError, match="cannot decode it") as caught:
        train(dataflow=BatchData(MapDataComponent(digits(), decode, 0), 32))
    assert any(entry.name == "decode" for entry in caught.traceback)


# ---- the model


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (
            Model(cost=lambda cost: None),
            ModelError,
            r"returned None for a training tower.*Is a `return cost` missing\?",
        ),
        (
            Model(cost=lambda cost: tf.stack([cost, cost], name="costs")),
            ModelError,
            r"must return a scalar cost; received 'costs:0' of shape \(2,\). Reduce it, for example by",
        ),
        (
            Model(cost=lambda cost: 1.0),
            ModelError,
            r"must return the cost, a scalar tensor; received 1.0 of type float",
        ),
        (
            Model(logits=lambda x: FullyConnected("fc", x, 10)),
            ValueError,
            r"FullyConnected\('fc'\): the layer scope 'fc' is already used.*Give this layer another name",
        ),
        (
            Model(logits=lambda x: LinearWrap(x).FullyConected("fc1", 10)()),
            AttributeError,
            r"FullyConected.*FullyConnected",
        ),
    ],
    ids=["no cost", "two costs", "number", "two layers of one name", "unknown layer"],
)
def test_a_model_that_cannot_be_built(model, error, message):
    with pytest.raises(error, match=message):
        train(model=model)


@pytest.mark.parametrize("wrong", [tf.nn.relu, "Conv2D", None], ids=["relu", "Conv2D", "None"])
def test_argscope_on_no_layer(wrong):
    def logits(x):
        with argscope(wrong, filters=3):
            return x

    with pytest.raises(TypeError, match=r"argscope needs a registered layer or a list of them"):
        train(model=Model(logits=logits))


def test_an_argument_that_a_layer_does_not_have():
    def logits(x):
        with argscope(Conv2D, filter=3):
            return x

    with pytest.raises(TypeError, match=r"argscope: Conv2D does not take 'filter'. Did you mean 'filters'\?"):
        train(model=Model(logits=logits))


# ---- missing names and files


def test_a_statistic_no_one_produces():
    message = (
        r"MaxSaver\('validation_accuracy'\) reads the statistic 'validation_accuracy', which no callback"
    )
    with pytest.raises(StatisticError, match=message):
        train(callbacks=[MaxSaver("validation_accuracy", checkpoint_dir="unused")])


@pytest.mark.parametrize("init", [SaverRestore, SmartInit])
def test_a_checkpoint_that_cannot_be_read(tmp_path, init):
    (tmp_path / "note.txt").write_text("no checkpoint")
    for name in ("nothing", "note.txt"):
        with pytest.raises(CheckpointError, match=rf"{name} cannot be read as a TensorFlow checkpoint"):
            train(session_init=init(tmp_path / name))


def test_a_checkpoint_of_another_model(tmp_path):
    train(callbacks=[ModelSaver()], log_dir=tmp_path / "run")
    other = Model(size=11, logits=lambda x: FullyConnected("top", x, 10))
    with pytest.raises(RestoreError) as caught:
        train(model=other, session_init=SaverRestore(tmp_path / "run"))
    assert str(caught.value).splitlines() == [
        f"{tmp_path / 'run'} does not match this graph:",
        "  only in the graph: top/W",
        "  only in the graph: top/b",
        "  of another shape or type: fc/W: the graph has shape (64, 11), the restored value has (64, 10)",
        "  of another shape or type: fc/b: the graph has shape (11,), the restored value has (10,)",
        "Name variables to skip in ignore=, or use SmartInit(path) to restore matching variables.",
    ]
    with pytest.raises(
        RestoreError, match=r"model-45 does not match this graph:\n  only in the graph: top/W\n"
    ):
        train(model=other, callbacks=[ModelSaver()], log_dir=tmp_path / "run", resume="auto")


def test_a_checkpoint_that_was_damaged(tmp_path):
    train(callbacks=[ModelSaver()], log_dir=tmp_path / "run")
    data = tmp_path / "run" / "model-45" / "variables.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:-1])
    with pytest.raises(
        CheckpointError, match=r"is missing or damaged: its size or checksum.*another checkpoint"
    ):
        train(callbacks=[ModelSaver()], log_dir=tmp_path / "run", resume="auto")
