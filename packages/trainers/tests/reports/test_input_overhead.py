"""Measuring the throughput without input time does not change the training."""

import random

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, ModelSaver
from towerpack_dataflow import DataFromList, MapData
from towerpack_inputsource import FeedInput, QueueInput, StagingInput
from towerpack_trainers import (
    ConfigError,
    SimpleTrainer,
    SyncMultiGPUTrainerReplicated,
    TrainConfig,
    Trainer,
    TrainerStateError,
)
from towerpack_trainers.reports import InputOverhead
from towerpack_trainers.session import SingleProcess
from towerpack_trainers.testing import SmallFlow, SmallModel


class End(Callback):
    """Records the final state of a training."""

    def _after_train(self):
        variables = self.graph.get_collection("variables")
        self.values = dict(zip((v.op.name for v in variables), self.trainer.sess.run(variables)))
        self.source = self.trainer.source.state_dict()
        self.random = random.random(), np.random.random()


def config(data, log_dir=None, **arguments):
    return TrainConfig(
        model=SmallModel(),
        data=data,
        extra_callbacks=[],
        monitors=[],
        steps_per_epoch=7,
        seed=3,
        log_dir=log_dir,
        **{"max_epoch": 2, **arguments},
    )


def ended(make, measure, **arguments):
    """Trains, optionally after a measurement, and returns the final state."""
    end = End()
    random.seed(1)
    np.random.seed(1)
    trainer = make(callbacks=[end], **arguments)
    if measure:
        overhead = trainer.measure_input_overhead(5)
        assert overhead.steps == 5 and 0 <= overhead.share < 1
        assert trainer.global_step == 0 and not trainer.graph.finalized
    trainer.train()
    return end


def same(one, other):
    assert one.values.keys() == other.values.keys() and one.source == other.source
    for name, value in one.values.items():
        np.testing.assert_array_equal(value, other.values[name])
    assert one.random == other.random


@pytest.mark.slow
@pytest.mark.parametrize(
    "source",
    [
        QueueInput,
        FeedInput,
        lambda flow: StagingInput(QueueInput(flow)),
        lambda flow: QueueInput(MapData(DataFromList(list(flow)), list)),
    ],
    ids=["queue", "feed", "staging", "shuffled"],
)
def test_the_training_that_follows_is_the_same(source):
    def make(**arguments):
        return SimpleTrainer(config(source(SmallFlow()), **arguments))

    same(ended(make, measure=False), ended(make, measure=True))


@pytest.mark.long
@pytest.mark.slow
def test_a_resumed_training_is_the_same(tmp_path):
    SimpleTrainer(
        config(QueueInput(SmallFlow()), tmp_path / "log", callbacks=[ModelSaver()], max_epoch=1)
    ).train()
    saved = str((tmp_path / "log" / "latest").resolve())

    def make(**arguments):
        return SimpleTrainer(config(QueueInput(SmallFlow()), resume=saved, **arguments))

    same(ended(make, measure=False), ended(make, measure=True))


@pytest.mark.slow
def test_the_position_of_a_flow_is_restored():
    flow = DataFromList(list(SmallFlow()))
    trainer = SimpleTrainer(config(None, dataflow=flow))
    position = flow.state_dict()
    trainer.measure_input_overhead(5)
    assert flow.state_dict() == position


@pytest.mark.long
@pytest.mark.slow
def test_several_towers():
    def make(**arguments):
        return SyncMultiGPUTrainerReplicated(
            config(QueueInput(SmallFlow()), **arguments), ["/cpu:0", "/cpu:1"]
        )

    same(ended(make, measure=False), ended(make, measure=True))


def test_text():
    overhead = InputOverhead(10, 45.0, 60.0)
    assert overhead.share == 0.25
    assert str(overhead) == "45 steps/s, and 60 if data cost nothing: data takes 25% of the time"
    assert InputOverhead(10, 61.0, 60.0).share == 0


@pytest.mark.slow
def test_refused_measurements():
    trainer = SimpleTrainer(config(QueueInput(SmallFlow(), infinite=False), max_epoch=1))
    with pytest.raises(ConfigError, match="steps"):
        trainer.measure_input_overhead(0)
    with pytest.raises(ConfigError, match="The input ended before measure_input_overhead had timed steps=50"):
        trainer.measure_input_overhead(50)
    trainer.train()
    with pytest.raises(TrainerStateError, match="has already trained"):
        trainer.measure_input_overhead(1)


@pytest.mark.slow
def test_an_error_of_the_data_is_raised_as_it_is():
    trainer = SimpleTrainer(config(QueueInput(SmallFlow(error=ZeroDivisionError("bad datapoint")))))
    with pytest.raises(ZeroDivisionError, match="bad datapoint"):
        trainer.measure_input_overhead(20)


@pytest.mark.slow
def test_steps_that_are_not_one_op_are_refused():
    class Own(SimpleTrainer):
        """Overrides its step."""

        def run_step(self):
            super().run_step()

    with pytest.raises(
        ConfigError, match=r"Own\.measure_input_overhead: a step of this trainer is not one op.*SimpleTrainer"
    ):
        Own(config(QueueInput(SmallFlow()))).measure_input_overhead(1)


def test_a_trainer_without_an_input_names_an_alternative():
    trainer = Trainer(steps_per_epoch=1, max_epoch=1, log_dir=None)
    with trainer.graph.as_default():
        trainer.train_op = tf.no_op()
    with pytest.raises(
        ConfigError,
        match=r"Trainer\.measure_input_overhead: the training has no input.*such as SimpleTrainer",
    ):
        trainer.measure_input_overhead()


def test_several_processes_are_refused_with_advice():
    class Others(SingleProcess):
        """Stands in for other processes; a step waits for their data."""

    trainer = SimpleTrainer(config(QueueInput(SmallFlow())), processes=Others())
    with pytest.raises(ConfigError, match=r"a step waits for the other processes.* Run it in one process"):
        trainer.measure_input_overhead()
