"""The session during a training."""

import pytest
import tensorflow.compat.v1 as tf

from towerpack_trainers import SimpleTrainer, Trainer, TrainerStateError


@pytest.fixture
def bare():
    """A trainer without a model."""
    return Trainer(steps_per_epoch=1, max_epoch=1, log_dir=None)


def test_the_session_exists_only_inside(bare):
    with tf.Graph().as_default():
        sess = tf.Session()
        with bare._open(sess):
            assert bare.sess is sess is tf.get_default_session()
            bare._hooked = hooked = object()
            assert bare.hooked_sess is hooked
    for read, message in (
        (lambda: bare.sess, "There is no session now: it exists from a callback's _before_train to"),
        (lambda: bare.hooked_sess, "There is no session now: hooked_sess is for run_step"),
    ):
        with pytest.raises(TrainerStateError, match=message):
            read()
    with pytest.raises(RuntimeError, match="closed Session"):
        sess.run([])


def test_an_error_closes_it_too(bare):
    with pytest.raises(ZeroDivisionError), bare._open(tf.Session(graph=tf.Graph())):
        raise ZeroDivisionError
    with pytest.raises(TrainerStateError):
        _ = bare.sess


def test_a_second_session_is_refused(bare):
    bare.graph.finalize()
    with pytest.raises(TrainerStateError, match="The graph is final"):
        bare.train()
    trained = Trainer(steps_per_epoch=1, max_epoch=1, log_dir=None)
    with trained.graph.as_default():
        trained.train_op = tf.no_op()
    trained.train()
    with pytest.raises(TrainerStateError, match="has already trained"):
        trained.train()


def test_a_trainers_session_exists_during_training(configure):
    trainer = SimpleTrainer(configure())
    with pytest.raises(TrainerStateError, match="There is no session now"):
        _ = trainer.sess
    with pytest.raises(TrainerStateError, match="hooked_sess is for run_step"):
        trainer.run_step()


def test_its_step_is_run_without_look_ups(bare):
    ran = []

    class Hooked:
        run = ran.append

    class Own(Trainer):
        def run_step(self):
            ran.append("of the class")

    bare._hooked = Hooked
    Own(steps_per_epoch=1, max_epoch=1, log_dir=None)._bind_step()()
    with bare.graph.as_default():
        bare.train_op = op = tf.no_op()
    step = bare._bind_step()
    step()
    bare.run_step = lambda: ran.append("of the object")
    step()
    assert ran == ["of the class", op, "of the object"]
