"""Training on a local Ray cluster, with a process killed in between."""

import logging
import os
import signal

import numpy as np
import pytest
import ray
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, ModelSaver, PeriodicTrigger
from towerpack_callbacks.checkpoint import snapshot_variables
from towerpack_dataflow import BatchData, DataFromList, ShardData
from towerpack_layers import FullyConnected
from towerpack_trainers import ModelDesc, SimpleTrainer, TrainConfig
from towerpack_trainers.distributed import DistributedTrainer, LaunchError, launch_on_ray, resolve_cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.filterwarnings("ignore")]

TOTAL = 12


@pytest.fixture(scope="module", autouse=True)
def cluster():
    """Ray on this machine."""
    ray.init(num_cpus=4, include_dashboard=False, logging_level=logging.ERROR)
    yield
    ray.shutdown()


def make_training(log_dir, kill_at=None, fail=False):
    """A function that trains, for each process; everything in it, since it travels."""

    def train():
        class Model(ModelDesc):
            def inputs(self):
                return [tf.TensorSpec([None, 3], tf.float32, "x"), tf.TensorSpec([None], tf.float32, "y")]

            def build_graph(self, x, y):
                return tf.reduce_mean(tf.square(FullyConnected("fc", x, 1)[:, 0] - y), name="cost")

            def optimizer(self):
                return tf.train.MomentumOptimizer(0.05, 0.9)

        class Act(Callback):
            chief_only = False

            def _before_train(self):
                self.first = self.global_step

            def _trigger_step(self):
                if self.first == 0 and self.global_step == kill_at and rank == size - 1:
                    os.kill(os.getpid(), signal.SIGKILL)

            def _after_train(self):
                self.values = snapshot_variables(self.trainer.sess, self.graph.get_collection("variables"))

        one = None if "TF_CONFIG" in os.environ else (0, 1)
        cluster = None if one else resolve_cluster()
        rank, size = one or (cluster.rank, cluster.size)
        if fail and rank == 1:
            raise ValueError("a mistake")
        xs = np.random.default_rng(0).normal(size=(120, 3)).astype(np.float32)
        flow = DataFromList(list(zip(xs, xs.sum(1))), shuffle=True)
        act = Act()
        config = TrainConfig(
            model=Model(),
            dataflow=BatchData(ShardData(flow, rank, size), TOTAL // size),
            callbacks=[PeriodicTrigger(ModelSaver(), every_k_steps=4), act],
            max_epoch=2,
            log_dir=log_dir,
            resume="auto",
            resume_allow=["world"],
            seed=1,
        )
        (SimpleTrainer(config) if one else DistributedTrainer(config, cluster)).train()
        return size, act.values

    return train


def assert_close(one, other):
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_allclose(one[name], other[name], rtol=1e-5, atol=1e-5)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(("least", "ends_with"), [(None, 3), (2, 2)])
def test_a_killed_process_does_not_change_the_end(tmp_path, least, ends_with):
    train = make_training(tmp_path / "ray", kill_at=10)
    results = launch_on_ray(train, 3, max_restarts=1, min_processes=least)
    assert [size for size, _ in results] == [ends_with] * ends_with
    _, undisturbed = make_training(tmp_path / "alone")()
    for _, values in results:
        assert_close(values, undisturbed)


def test_the_first_failure_is_the_cause(tmp_path):
    with pytest.raises(LaunchError, match=r"failed 1 times.*ValueError: a mistake") as caught:
        launch_on_ray(make_training(tmp_path, fail=True), 2, grace=0.5)
    assert isinstance(caught.value.__cause__, ValueError)
