"""The conformance kit finds errors, and all of our own trainers pass it."""

import os
import threading

import attrs
import pytest
import tensorflow.compat.v1 as tf

import towerpack_trainers
from towerpack_dataflow.testing import check_dataflow
from towerpack_layers import BatchNorm, FullyConnected, random_normal
from towerpack_trainers import (
    AsyncMultiGPUTrainer,
    DistributedTrainer,
    GANModelDesc,
    GANTrainer,
    ModelDesc,
    MultiGPUGANTrainer,
    NoOpTrainer,
    SimpleTrainer,
    SingleCostTrainer,
    SyncMultiGPUTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
    TrainerStateError,
)
from towerpack_trainers.distributed import Cluster
from towerpack_trainers.gan import least_squares_costs
from towerpack_trainers.testing import (
    ConformanceError,
    FailAt,
    FinalVariables,
    Recorder,
    SmallFlow,
    SmallModel,
    check_trainer,
)

CPUS = ["/cpu:0", "/cpu:1"]


def alone(config):
    """The distributed trainer with a single process; a cluster of one opens no port."""
    return DistributedTrainer(config, Cluster.of(["127.0.0.1:1"], 0))


class TwoNetworks(GANModelDesc):
    """Has the inputs of `SmallModel`, and noise."""

    def inputs(self):
        return SmallModel().inputs()

    def build_graph(self, x, y, number):
        with tf.variable_scope("gen"):
            fake = FullyConnected("fc", random_normal("noise", tf.shape(x)), 2)
        scores = []
        for examples in (x[:, :2] * y[:, tf.newaxis], fake):
            with tf.variable_scope("discrim", reuse=tf.AUTO_REUSE):
                scores.append(FullyConnected("fc", tf.nn.tanh(BatchNorm("bn", examples)), 1))
        return least_squares_costs(*scores)

    def optimizer(self):
        return tf.train.MomentumOptimizer(0.1, 0.9)


# At least one way to make each public trainer, and the checks that do not apply to it.
OURS = {
    "AsyncMultiGPUTrainer": (lambda config: AsyncMultiGPUTrainer(config, CPUS), {"repeatable": False}),
    "DistributedTrainer": (alone, {}),
    "GANTrainer": (GANTrainer, {"make_model": TwoNetworks}),
    "GANTrainer of several steps": (
        lambda config: GANTrainer(config, d_steps=2, g_steps=2),
        {"make_model": TwoNetworks},
    ),
    "MultiGPUGANTrainer": (
        lambda config: MultiGPUGANTrainer(config, CPUS),
        {"make_model": TwoNetworks},
    ),
    "NoOpTrainer": (NoOpTrainer, {"trains": False}),
    "SimpleTrainer": (SimpleTrainer, {}),
    "SyncMultiGPUTrainer": (lambda config: SyncMultiGPUTrainer(config, CPUS), {}),
    "SyncMultiGPUTrainerParameterServer": (
        lambda config: SyncMultiGPUTrainerParameterServer(config, CPUS),
        {},
    ),
    "SyncMultiGPUTrainerReplicated": (lambda config: SyncMultiGPUTrainerReplicated(config, CPUS), {}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OURS)
def test_our_own_trainers_pass(name, tmp_path):
    make_trainer, exceptions = OURS[name]
    check_trainer(make_trainer, tmp_path, **exceptions)


def test_all_our_trainers_are_checked():
    concrete = {name for name in towerpack_trainers.__all__ if name.endswith("Trainer")}
    concrete |= {name for name in towerpack_trainers.__all__ if name.startswith("SyncMultiGPUTrainer")}
    others = {"Trainer", "TowerTrainer", "BuilderTrainer", "SingleCostTrainer"}  # to be subclassed
    others |= {"QueueInputTrainer"}  # another name
    others |= {"MPITrainer"}  # needs an installation of its own
    others |= {"SeparateGANTrainer"}  # counts two steps in a turn of its loop
    assert concrete - others == {name.split()[0] for name in OURS}


@pytest.mark.slow
def test_a_custom_model(tmp_path):
    class Wider(ModelDesc):
        """Has the inputs of `SmallModel`, and no `visits`."""

        def inputs(self):
            return SmallModel().inputs()

        def build_graph(self, x, y, number):
            return tf.reduce_mean(tf.square(FullyConnected("fc", x, 1)[:, 0] - y))

        def optimizer(self):
            return tf.train.MomentumOptimizer(0.1, 0.9)

    check_trainer(SimpleTrainer, tmp_path, make_model=Wider)


# ---- detected errors


class OneDevice(SingleCostTrainer):
    """Trains on one device like `SimpleTrainer`, with methods that the broken trainers replace."""

    def _build_train_op(self):
        tower = self.tower_func.build(self.training_context(), self.source.get_input_tensors())
        return self.config.make_optimizer().minimize(tower.output)


class RunsTwice(OneDevice):
    """Counts two steps for one step of its loop."""

    def run_step(self):
        super().run_step()
        super().run_step()


class TrainsBesides(OneDevice):
    """Takes further datapoints in some steps, without a callback."""

    def run_step(self):
        super().run_step()
        if self.loop.local_step == 1:
            self.sess.run(self.train_op)


class ForgetsItsSeed(OneDevice):
    """Draws different initial values in each run."""

    def _setup(self):
        tf.set_random_seed(int.from_bytes(os.urandom(4), "little") >> 1)
        super()._setup()


class IgnoresItsSeed(OneDevice):
    """Draws the same numbers for any seed."""

    def __init__(self, config):
        super().__init__(attrs.evolve(config, seed=1))


class KeepsStateToItself(OneDevice):
    """Sets a variable to a number that no checkpoint holds."""

    steps = 0

    def _setup(self):
        super()._setup()
        self.number = tf.placeholder(tf.float32, [])
        counted = tf.get_variable("counted", [], trainable=False, initializer=tf.zeros_initializer())
        self.count = counted.assign(self.number).op

    def run_step(self):
        super().run_step()
        self.steps += 1
        self.sess.run(self.count, {self.number: self.steps})


class WrapsErrors(OneDevice):
    """Raises an error of another type than the original one."""

    def train(self):
        try:
            super().train()
        except TrainerStateError:
            raise
        except Exception as error:
            raise RuntimeError("the training failed") from error


class SwallowsErrors(OneDevice):
    """Ends without an error."""

    def train(self):
        try:
            super().train()
        except TrainerStateError:
            raise
        except Exception:
            pass


class LeavesAThread(OneDevice):
    """Starts a thread that is never stopped."""

    def train(self):
        self.thread = threading.Thread(target=END.wait, name="left-behind")
        self.thread.start()
        super().train()


class TrainsAgain(OneDevice):
    """Silently does nothing in a second `train()`."""

    trained = False

    def train(self):
        if not self.trained:
            self.trained = True
            super().train()


class ExplainsNothing(OneDevice):
    """Does not call the callbacks."""

    def explain(self):
        super().explain()
        return "a training"


END = threading.Event()

BROKEN = {
    RunsTwice: r"in a training from the start, expected call 2 of a callback to be trigger_step in epoch 1, "
    r"local_step 0, global_step 1, received trigger_step in epoch 1, local_step 0, global_step 2",
    TrainsBesides: "each datapoint of a pass must be trained on once, all with equal weight",
    ForgetsItsSeed: "variable '.*' differs by up to",
    IgnoresItsSeed: "another seed must give another training",
    KeepsStateToItself: r"an uninterrupted one. Is there state outside.* 'counted' differs by up to 8",
    WrapsErrors: r"must raise the original error, received RuntimeError\('the training failed'\)",
    SwallowsErrors: r"must raise the original error, received None",
    LeavesAThread: "must leave no thread behind, received left-behind",
    TrainsAgain: r"a second train\(\) must raise a TrainerStateError, received no error",
    ExplainsNothing: r"explain\(\) must name all callbacks, received 'a training'",
}


@pytest.mark.slow
@pytest.mark.parametrize("broken", BROKEN, ids=lambda trainer: trainer.__name__)
def test_broken_trainers_are_named(broken, tmp_path):
    END.clear()
    try:
        with pytest.raises(ConformanceError, match=BROKEN[broken]):
            check_trainer(broken, tmp_path)
    finally:
        END.set()
        for thread in threading.enumerate():
            if thread.name == "left-behind":
                thread.join()


def test_a_recorder_a_failure_and_the_end(configure):
    recorder, kept = Recorder(), FinalVariables()
    failing = FailAt("_trigger_step", ZeroDivisionError(), step=2)
    with pytest.raises(ZeroDivisionError):
        SimpleTrainer(configure(callbacks=[recorder, kept, failing])).train()
    assert recorder.calls[1:] == [
        ("before_epoch", 1, -1, 0),
        ("trigger_step", 1, 0, 1),
        ("trigger_step", 1, 1, 2),
        ("after_train", 1, 1, 2),
    ]
    assert kept.values["global_step"] == 2


def test_the_flow_of_the_kit_is_a_flow():
    check_dataflow(SmallFlow())
