"""Trainings described by functions: `setup_graph`, and then `train`."""

import logging

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, InferenceRunner, ModelSaver, ProgressBar, ScalarStats, StopTraining
from towerpack_inputsource import QueueInput
from towerpack_trainers import (
    AsyncMultiGPUTrainer,
    ConfigError,
    DistributedTrainer,
    GANTrainer,
    ModelError,
    NoOpTrainer,
    SeparateGANTrainer,
    SimpleTrainer,
    SyncMultiGPUTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
    TrainConfig,
    TrainerStateError,
)
from towerpack_trainers.distributed import Cluster

SIGNATURE = [tf.TensorSpec([None, 4], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label")]
QUIET = {"extra_callbacks": [], "monitors": []}


def optimizer():
    return tf.train.MomentumOptimizer(0.1, 0.9)


@pytest.fixture
def functions(kit):
    """The arguments of `setup_graph` for a model with dropout and a flow with a position."""

    def make(flow=None, model=None):
        return SIGNATURE, flow or kit.net_flow(), (model or kit.Random()).build_graph, optimizer

    return make


@pytest.fixture
def weights(kit):
    """Trains the graph of `setup_graph`; returns the final values."""

    def train(trainer, *callbacks, **arguments):
        kept = kit.Weights()
        trainer.train(callbacks=[*callbacks, kept], **{"max_epoch": 2, **QUIET, **arguments})
        return kept.values

    return train


TRAINERS = {
    "one device": lambda *config: SimpleTrainer(*config),
    "shared": lambda *config: SyncMultiGPUTrainer(*config, devices=2),
    "shared by name": lambda *config: SyncMultiGPUTrainerParameterServer(*config, devices=2),
    "copies": lambda *config: SyncMultiGPUTrainerReplicated(*config, devices=["/cpu:0", "/cpu:1"]),
    "processes": lambda *config: DistributedTrainer(*config, cluster=Cluster.of(["127.0.0.1:1"], 0)),
}


@pytest.mark.slow
@pytest.mark.parametrize("make", TRAINERS.values(), ids=TRAINERS)
def test_the_weights_are_those_of_a_model(kit, functions, weights, make):
    kept = kit.Weights()
    config = TrainConfig(
        model=kit.Random(),
        dataflow=kit.net_flow(),
        callbacks=[kept],
        max_epoch=2,
        seed=7,
        log_dir=None,
        **QUIET,
    )
    make(config).train()
    trainer = make()
    assert trainer.setup_graph(*functions(), seed=7) is None
    kit.assert_same(kept.values, weights(trainer, log_dir=None))


def test_asynchronous_towers(kit, functions, weights):
    trainer = AsyncMultiGPUTrainer(devices=2)
    trainer.setup_graph(*functions())
    assert all(np.isfinite(value).all() for value in weights(trainer, log_dir=None).values())


def test_an_input_source_and_a_run_without_an_update(kit, functions, weights):
    sources = []
    for make in (SimpleTrainer, NoOpTrainer):
        trainer = make()
        source = QueueInput(kit.net_flow())
        trainer.setup_graph(*functions(source), seed=1)
        weights(trainer, log_dir=None)
        assert trainer.source is source
        sources.append(trainer.loop.global_step)
    assert sources == [12, 12]


def test_evaluation_and_prediction(kit, functions):
    trainer = SyncMultiGPUTrainer(devices=2)
    trainer.setup_graph(SIGNATURE, kit.net_flow(), kit.Net().build_graph, optimizer, log_dir=None)
    predict = trainer.get_predictor(["image"], ["logits"])
    seen = []

    class Predict(Callback):
        def _trigger(self):
            seen.append(predict(np.zeros([3, 4], np.float32))[0].shape)

    runner = InferenceRunner(kit.net_data(), [ScalarStats("accuracy")])
    trainer.train(callbacks=[runner, Predict()], max_epoch=1, **QUIET)
    assert seen == [(3, 2)]
    assert 0 <= trainer.monitors.get_latest("validation_accuracy") <= 1


def test_it_can_be_explained_first(functions):
    trainer = SimpleTrainer()
    trainer.setup_graph(*functions())
    text = trainer.explain(max_epoch=1, callbacks=[ProgressBar()], log_dir=None, **QUIET)
    assert "ProgressBar" in text
    with pytest.raises(TrainerStateError, match="received max_epoch after its training was set up"):
        trainer.train(max_epoch=3)
    trainer.train()
    assert trainer.loop.epoch_num == 1


# ---- seeds and resuming


class StopAt(ModelSaver):
    """Saves and stops at a step."""

    def __init__(self, step):
        super().__init__()
        self._step = step

    def _trigger_step(self):
        if self.global_step == self._step:
            self.trigger()
            raise StopTraining("enough")


@pytest.mark.slow
@pytest.mark.parametrize(("devices", "place"), [(2, "setup_graph"), (1, "train")])
def test_a_resumed_run_is_the_same(kit, functions, weights, tmp_path, devices, place):
    def run(directory, *callbacks, resume=None):
        trainer = SyncMultiGPUTrainer(devices=devices)
        where = {"log_dir": tmp_path / directory, "resume": resume}
        if place == "train":
            trainer.setup_graph(*functions(), seed=5)
            return weights(trainer, *callbacks, **where)
        trainer.setup_graph(*functions(), seed=None if resume else 5, **where)
        return weights(trainer, *callbacks)

    whole = run("whole")
    run("parts", StopAt(5))
    kit.assert_same(whole, run("parts", resume="auto"))


def test_the_directory_may_be_given_late(functions, tmp_path):
    trainer = SimpleTrainer()
    trainer.setup_graph(*functions())
    trainer.train(callbacks=[ModelSaver()], max_epoch=1, log_dir=tmp_path / "run", **QUIET)
    assert trainer.log_dir == tmp_path / "run"
    assert (tmp_path / "run" / "checkpoint").exists() or list((tmp_path / "run").glob("model-*"))


def test_a_random_seed_cannot_equal_that_of_a_resumed_run(functions, tmp_path):
    trainer = SimpleTrainer()
    trainer.setup_graph(*functions())
    with pytest.raises(ConfigError, match=r"with a random seed.*Pass resume= \(and log_dir=\) to setup"):
        trainer.train(log_dir=tmp_path, resume="auto")


def test_the_seed_of_another_run(functions, weights, tmp_path):
    def trainer(seed):
        made = SimpleTrainer()
        made.setup_graph(*functions(), seed=seed)
        return made

    weights(trainer(1), ModelSaver(), log_dir=tmp_path / "run")
    with pytest.raises(ConfigError, match=r"graph with seed 2, but the run to resume has seed 1"):
        weights(trainer(2), log_dir=tmp_path / "run", resume="auto")


@pytest.mark.parametrize("late", [{"seed": 2}, {"xla": True}, {"seed": 2, "xla": True}])
def test_arguments_of_the_graph_cannot_change(functions, late):
    trainer = SimpleTrainer()
    trainer.setup_graph(*functions(), seed=1)
    with pytest.raises(ConfigError, match=rf"already built, with another {' and '.join(late)}\. Pass"):
        trainer.train(**late)


def test_a_random_seed_may_be_passed_later(functions):
    trainer = SimpleTrainer()
    trainer.setup_graph(*functions())
    trainer.train(seed=trainer.seed, max_epoch=1, log_dir=None, **QUIET)


# ---- misuse


def test_nothing_to_train():
    trainer = SimpleTrainer()
    for use in (trainer.train, trainer.explain):
        with pytest.raises(
            TrainerStateError, match=r"nothing to train yet. Call setup_graph\(signature, input"
        ):
            use()
    with pytest.raises(AttributeError, match=r"SimpleTrainer has no '.*' before setup_graph"):
        trainer.get_predictor(["image"], ["logits"])


def test_setup_twice(functions):
    trainer = SimpleTrainer()
    trainer.setup_graph(*functions())
    with pytest.raises(TrainerStateError, match="setup_graph was called before; one trainer is one training"):
        trainer.setup_graph(*functions())


def test_an_additional_configuration(configure, functions):
    trainer = SimpleTrainer(configure())
    with pytest.raises(TrainerStateError, match=r"was made with a TrainConfig, .*Make it without one"):
        trainer.setup_graph(*functions())
    with pytest.raises(ConfigError, match=r"train received max_epoch, but it was made with a TrainConfig"):
        trainer.train(max_epoch=3)


def test_model_and_data_are_given_once(functions):
    trainer = SimpleTrainer()
    with pytest.raises(ConfigError, match="does not take model, optimizer here"):
        trainer.setup_graph(*functions(), model=None, optimizer=None)
    trainer.setup_graph(*functions())
    with pytest.raises(ConfigError, match=r"does not take dataflow here\. Pass them to setup_graph"):
        trainer.train(dataflow=[])


@pytest.mark.parametrize("kind", [GANTrainer, SeparateGANTrainer])
def test_trainers_of_other_costs(kind, functions):
    trainer = kind.__new__(kind)  # its construction does not matter
    with pytest.raises(
        TrainerStateError, match=rf"{kind.__name__}\.setup_graph: setup_graph takes a single cost"
    ):
        trainer.setup_graph(*functions())


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (
            {"signature": "image"},
            ModelError,
            r"setup_graph\(signature=\.\.\.\) takes a list of tf.TensorSpec",
        ),
        ({"input": None}, ConfigError, r"setup_graph\(input=None\): expected a DataFlow or InputSource"),
        ({"cost_fn": 3}, TypeError, r"setup_graph\(cost_fn=\.\.\.\) takes a function, received 3"),
        ({"optimizer_fn": optimizer()}, TypeError, r"setup_graph\(optimizer_fn=\.\.\.\) takes a function"),
        (
            {"optimizer_fn": lambda: None},
            ConfigError,
            r"optimizer=None of type NoneType: expected a tf.train",
        ),
        (
            {"cost_fn": lambda image, label: None},
            ModelError,
            r"cost_fn must return the cost, a scalar tensor",
        ),
        ({"cost_fn": lambda image, label: image}, ModelError, r"cost_fn must return a scalar cost; received"),
    ],
)
def test_wrong_arguments(functions, changes, error, message):
    names = ("signature", "input", "cost_fn", "optimizer_fn")
    with pytest.raises(error, match=message):
        SimpleTrainer().setup_graph(**{**dict(zip(names, functions())), **changes})


# ---- the number of devices


def test_virtual_devices_by_number(caplog):
    caplog.set_level(logging.WARNING)
    assert SyncMultiGPUTrainer(devices=2).devices == ["/cpu:0", "/cpu:1"]
    assert "devices=2 trains on virtual CPU devices" in caplog.text


@pytest.mark.parametrize("devices", [0, -1, True])
def test_invalid_numbers_of_devices(devices):
    with pytest.raises(ConfigError, match=rf"devices={devices}: expected a list of devices, or their number"):
        SyncMultiGPUTrainer(devices=devices)
