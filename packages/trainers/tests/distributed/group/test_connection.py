"""Messages between processes: whole, in order, and of one protocol."""

import contextlib
import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from towerpack_trainers.distributed.group import Connection, connect, listen


@contextlib.contextmanager
def connected():
    """A connection, and the socket at its other end."""
    with contextlib.closing(listen(0)) as listener:
        connection = connect("127.0.0.1", listener.getsockname()[1], 10)
        other, _ = listener.accept()
    with contextlib.closing(connection), other:
        yield connection, other


@settings(deadline=None)
@given(st.lists(st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=5), max_size=5))
def test_messages_arrive_as_they_were_sent(messages):
    with connected() as (one, other), contextlib.closing(Connection(other)) as receiver:
        for message in messages:
            one.send(message)
        assert [receiver.receive(5) for _ in messages] == messages


def test_messages_in_pieces():
    with connected() as (sender, receiving), connected() as (receiver, sending):
        sender.send(["long", "x" * 500])
        whole = receiving.recv(1 << 16)
        for k in range(0, len(whole), 7):
            sending.sendall(whole[k : k + 7])
        assert receiver.receive(5) == ["long", "x" * 500]


def test_all_complete_messages_come_with_one_read():
    with connected() as (sender, receiving), connected() as (receiver, sending):
        sender.send(1)
        sender.send(2)
        whole = b""
        while len(whole) < 18:  # a header of 8 bytes, and a digit
            whole += receiving.recv(1 << 16)
        sending.sendall(whole)
        assert receiver.receive_pending() == [1, 2]


def test_an_end_is_an_error():
    with connected() as (receiver, sending):
        sending.shutdown(socket.SHUT_RDWR)
        with pytest.raises(EOFError, match="closed the connection"):
            receiver.receive(5)


def test_another_protocol():
    with connected() as (receiver, sending):
        sending.sendall(b"GET / HTTP/1.1\r\n")
        with pytest.raises(ValueError, match="not of this protocol"):
            receiver.receive(5)
