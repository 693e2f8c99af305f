import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_inputsource import fast_callable


class Remote:
    """A session that cannot look up by number, as one of a remote server cannot."""

    def __init__(self, session):
        self.make_callable = session.make_callable

    def _make_callable_from_options(self, options):
        raise tf.errors.UnimplementedError(None, None, "not on this server")


@pytest.fixture(params=[lambda session: session, Remote], ids=["local", "remote"])
def session(request):
    with tf.Graph().as_default(), tf.Session() as sess:
        yield request.param(sess)


def counter(session):
    count = tf.get_variable("count", initializer=0, use_resource=True)
    session.make_callable(count.initializer)()
    return count, session.make_callable(count.read_value())


def test_runs_ops_and_returns_nothing(session):
    count, read = counter(session)
    run = fast_callable(session, [count.assign_add(1).op])
    assert run() == run() == []
    assert read() == 2


def test_takes_values_in_the_order_of_feeds(session):
    left, right = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [2])
    run = fast_callable(session, feeds=[left, right], fetches=[right - left, right * left])
    difference, product = run(np.float32(1), np.array([3, 5], np.float32))
    np.testing.assert_array_equal(difference, [2, 4])
    np.testing.assert_array_equal(product, [3, 5])


def test_runs_ops_with_fetches(session):
    count, read = counter(session)
    run = fast_callable(session, [count.assign_add(3).op], fetches=[tf.constant(7)])
    assert run() == [7]
    assert read() == 3


def test_tensorflow_makes_it_at_the_first_call(monkeypatch):
    made = []
    make = tf.Session._make_callable_from_options

    def noted(self, options):
        made.append(list(options.fetch))
        return make(self, options)

    monkeypatch.setattr(tf.Session, "_make_callable_from_options", noted)
    with tf.Graph().as_default(), tf.Session() as session:
        used, unused = (fast_callable(session, fetches=[tf.constant(number)]) for number in (1, 2))
        assert made == []
        assert used() == used() == [1]
        assert made == [["Const:0"]]
        assert unused() == [2]
