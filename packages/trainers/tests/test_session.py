"""The session a training runs in."""

import os

import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback
from towerpack_trainers import SimpleTrainer, SyncMultiGPUTrainer, TrainerStateError, default_session_config
from towerpack_trainers._session import create_session


@pytest.mark.parametrize(
    ("devices", "cpus"),
    [
        ((), 0),
        (["/gpu:0", "/gpu:1"], 0),
        (["/cpu:0"], 1),
        (["/cpu:0", "/device:CPU:2"], 3),
        (["/job:localhost/replica:0/task:0/device:CPU:1"], 2),
    ],
    ids=str,
)
def test_cpu_devices_that_are_named_are_made(devices, cpus):
    assert default_session_config(devices).device_count["CPU"] == cpus


def test_defaults():
    config = default_session_config()
    assert config.allow_soft_placement
    assert config.gpu_options.allow_growth
    assert config.intra_op_parallelism_threads == (1 if os.cpu_count() <= 4 else 0)


class Look(Callback):
    """Counts the CPU devices of the session."""

    def _before_train(self):
        self.cpus = sum(device.device_type == "CPU" for device in self.trainer.sess.list_devices())


def test_the_users_session_config_is_used_as_it_is(configure):
    look = Look()
    SyncMultiGPUTrainer(configure(callbacks=[look]), ["/cpu:0", "/cpu:1"]).train()
    assert look.cpus == 2
    given = tf.ConfigProto(device_count={"CPU": 3})
    SimpleTrainer(configure(callbacks=[look], session_config=given)).train()
    assert look.cpus == 3
    assert given == tf.ConfigProto(device_count={"CPU": 3})


def test_a_session_starts_with_everything_initialised_and_a_final_graph():
    with tf.Graph().as_default() as graph:
        variable = tf.get_variable("v", initializer=2.0)
        local = tf.get_variable("l", initializer=3.0, collections=[tf.GraphKeys.LOCAL_VARIABLES])
        total = variable + local
    with create_session(graph, tf.ConfigProto()) as sess:
        assert sess.run(total) == 5
        assert graph.finalized


def test_an_initializer_that_fails_says_so():
    with tf.Graph().as_default() as graph:
        tf.get_variable("v", initializer=tf.placeholder(tf.float32, [], "unfed"))
    with pytest.raises(tf.errors.InvalidArgumentError, match="unfed"):
        create_session(graph, tf.ConfigProto())


def test_the_session_is_there_while_training_alone(configure):
    trainer = SimpleTrainer(configure())
    message = "There is no session now: it exists from a callback's _before_train to its _after_train"
    with pytest.raises(TrainerStateError, match=message):
        _ = trainer.sess
    trainer.train()
    with pytest.raises(TrainerStateError, match=message):
        _ = trainer.sess
    with pytest.raises(TrainerStateError, match=r"hooked_sess is for run_step\(\)"):
        _ = trainer.hooked_sess
