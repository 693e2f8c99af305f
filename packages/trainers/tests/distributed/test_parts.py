"""The parts of training in many processes that need no processes."""

import math
import socket

import pytest
import tensorflow.compat.v1 as tf
from hypothesis import given
from hypothesis import strategies as st

from towerpack_trainers.distributed import MissingExtraError
from towerpack_trainers.distributed.exchange._average_over_processes import exchange_packed
from towerpack_trainers.distributed.group._connection import Line
from towerpack_trainers.towers._buckets import plan_buckets_by_size

# ---- messages


def lines():
    one, other = socket.socketpair(socket.AF_UNIX)
    return _PairLine(one), _PairLine(other)


class _PairLine(Line):
    """A line over a socket pair, which has no TCP options."""

    def __init__(self, sock):
        self._sock, self._received = sock, bytearray()


@given(st.lists(st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=5), max_size=5))
def test_messages_arrive_as_they_were_sent(messages):
    one, other = lines()
    for message in messages:
        one.send(message)
    assert [other.receive(5) for _ in messages] == messages
    one.close()
    other.close()


def test_messages_in_pieces():
    one, other = lines()
    one.send(["long", "x" * 500])
    whole = other._sock.recv(1 << 16)
    for k in range(0, len(whole), 7):
        one._sock.sendall(whole[k : k + 7])
    assert other.receive(5) == ["long", "x" * 500]
    one.send(1)
    one.send(2)
    assert other.receive_pending() == [1, 2]
    one.close()
    with pytest.raises(EOFError, match="closed the connection"):
        other.receive(5)
    other.close()


def test_what_is_of_another_protocol():
    one, other = lines()
    one._sock.sendall(b"GET / HTTP/1.1\r\n")
    with pytest.raises(ValueError, match="not of this protocol"):
        other.receive(5)
    one.close()
    other.close()


# ---- buckets


@given(st.lists(st.tuples(st.sampled_from("fd"), st.integers(0, 20)), max_size=30), st.integers(1, 30))
def test_buckets_hold_every_tensor_once(tensors, limit):
    plan = plan_buckets_by_size(tensors, limit)
    assert sorted(place for bucket in plan for place in bucket) == list(range(len(tensors)))
    for bucket in plan:
        assert len({tensors[place][0] for place in bucket}) == 1
        sizes = [tensors[place][1] for place in bucket]
        assert sum(sizes) <= limit or len([size for size in sizes if size]) == 1
        assert bucket == sorted(bucket)


def test_the_first_tensor_is_first():
    assert plan_buckets_by_size([("f", 1), ("f", 100), ("f", 100)], 50)[0][0] == 0


@pytest.mark.parametrize("limit", [1, 7, 1000])
def test_tensors_come_back_as_they_were(limit):
    shapes = [(2, 3), (), (5,), (1, 1, 4), (0,), (2,)]
    with tf.Graph().as_default(), tf.Session() as sess:
        tensors = [
            tf.reshape(tf.range(math.prod(shape)), shape)
            if k % 2
            else tf.random.stateless_uniform(shape, [k, 1])
            for k, shape in enumerate(shapes)
        ]
        sent = []

        def double(buckets):
            sent.extend(buckets)
            return [bucket * 2 for bucket in buckets]

        got = exchange_packed(tensors, double, limit)
        before, after = sess.run([tensors, got])
    for one, other in zip(before, after):
        assert one.shape == other.shape and one.dtype == other.dtype
        assert (one * 2 == other).all()
    assert all(bucket.shape.rank == 1 for bucket in sent)
    assert len(sent) == 2 or limit < 1000


# ---- extras


def test_a_missing_extra_names_it():
    error = MissingExtraError.of("mpi", ImportError("No module named 'mpi4py'", name="mpi4py"))
    assert 'pip install "towerpack-trainers[mpi]"' in str(error)
    assert isinstance(error, ImportError)
