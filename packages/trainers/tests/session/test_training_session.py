"""The session during a training."""

from types import SimpleNamespace

import pytest
import tensorflow.compat.v1 as tf

from towerpack_trainers import SimpleTrainer, TrainerStateError
from towerpack_trainers.session import TrainingSession


def test_the_session_exists_only_inside():
    session = TrainingSession()
    with tf.Graph().as_default():
        sess = tf.Session()
        with session.open(sess) as opened:
            assert session.sess is sess is opened is tf.get_default_session()
            session.hooked = hooked = object()
            assert session.hooked is hooked
    for read, message in (
        (lambda: session.sess, "There is no session now: it exists from a callback's _before_train to"),
        (lambda: session.hooked, "There is no session now: hooked_sess is for run_step"),
    ):
        with pytest.raises(TrainerStateError, match=message):
            read()
    with pytest.raises(RuntimeError, match="closed Session"):
        sess.run([])


def test_an_error_closes_it_too():
    session, sess = TrainingSession(), tf.Session(graph=tf.Graph())
    with pytest.raises(ZeroDivisionError), session.open(sess):
        raise ZeroDivisionError
    with pytest.raises(TrainerStateError):
        _ = session.sess


def test_a_second_session_is_refused():
    session, graph = TrainingSession(), tf.Graph()
    session.check_unused(graph)
    graph.finalize()
    with pytest.raises(TrainerStateError, match="The graph is final"):
        session.check_unused(graph)
    session.use()
    with pytest.raises(TrainerStateError, match="has already trained"):
        session.check_unused(tf.Graph())


def test_a_trainers_session_exists_during_training(configure):
    trainer = SimpleTrainer(configure())
    with pytest.raises(TrainerStateError, match="There is no session now"):
        _ = trainer.sess
    with pytest.raises(TrainerStateError, match="hooked_sess is for run_step"):
        trainer.run_step()


def test_its_step_is_run_without_look_ups():
    session, ran = TrainingSession(), []

    class Hooked:
        run = ran.append

    session.hooked = Hooked
    trainer = SimpleNamespace(run_step=lambda: ran.append("of the class"))
    session.bind_step(trainer, None)()
    own = SimpleNamespace()
    step = session.bind_step(own, "the op")
    step()
    own.run_step = lambda: ran.append("of the object")
    step()
    assert ran == ["of the class", "the op", "of the object"]
