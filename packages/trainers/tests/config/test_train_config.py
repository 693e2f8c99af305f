"""Invalid configurations are refused by the constructor."""

import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import ModelSaver
from towerpack_inputsource import QueueInput
from towerpack_trainers import ConfigError, ModelDesc, SimpleTrainer, TrainConfig


class Line(ModelDesc):
    """A minimal model for a configuration."""

    def inputs(self):
        return [tf.TensorSpec([None], tf.float32, "x")]

    def build_graph(self, x):
        return tf.reduce_mean(x)


BAD = [
    ({"model": Line()}, r"a model but neither dataflow= nor data="),
    (
        {"model": Line(), "dataflow": [], "data": QueueInput([[1]])},
        r"both dataflow= and data=; give only one of them",
    ),
    ({"model": Line(), "dataflow": QueueInput([[1]])}, r"received an InputSource; give it as data= instead"),
    ({"model": Line(), "data": [[1]]}, r"expected an InputSource; a DataFlow goes to dataflow="),
    ({"model": Line}, r"model=.*expected a ModelDesc object. It is a class: write Line\(\)"),
    ({"model": tf.keras.Sequential()}, r"expected a ModelDesc object. A Keras model trains by KerasModel"),
    ({"steps_per_epoch": 0}, r"steps_per_epoch=0\): expected a whole number of at least 1"),
    ({"max_epoch": 2.5}, r"max_epoch=2.5\): expected a whole number"),
    ({"session_init": "model.npz"}, r"expected a SessionInit, such as SmartInit\(path\)"),
    ({"resume": "auto", "log_dir": None}, r'resume="auto"\) needs log_dir='),
    ({"callbacks": ModelSaver()}, r"is one callback; give a list"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[message[:30] for _, message in BAD])
def test_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        TrainConfig(**arguments)


def test_callbacks_must_be_callbacks():
    with pytest.raises(
        TypeError, match=r"callbacks must be Callback objects, received <class.*forget to call it"
    ):
        TrainConfig(callbacks=[ModelSaver])


@pytest.mark.parametrize(
    ("optimizer", "message"),
    [
        (tf.keras.optimizers.SGD(), r"expected a tf.train.Optimizer.*Keras optimizers do not train"),
        (lambda: 0.1, r"optimizer=0.1 of type float"),
        ("sgd", r"optimizer='sgd' of type str"),
    ],
    ids=["keras", "function", "name"],
)
def test_invalid_optimizers(configure, optimizer, message):
    with pytest.raises(ConfigError, match=message):
        SimpleTrainer(configure(optimizer=optimizer))


def test_a_trainer_takes_a_config():
    with pytest.raises(ConfigError, match="SimpleTrainer takes a TrainConfig, received 3"):
        SimpleTrainer(3)


def test_a_tower_trainer_needs_a_model():
    with pytest.raises(ConfigError, match=r"SimpleTrainer needs TrainConfig\(model=...\)"):
        SimpleTrainer(TrainConfig(dataflow=[[1]]))


def test_default_log_dir_is_named_after_the_script(monkeypatch):
    monkeypatch.setattr("sys.argv", ["/somewhere/train_digits.py"])
    assert str(TrainConfig().log_dir) == "train_log/train_digits"
