"""Messages between processes: whole, in order, and of one protocol."""

import contextlib
import socket
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from towerpack_trainers.distributed.group import Connection, connect, encode, listen


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
def test_messages_arrive_unchanged(messages):
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


def test_one_read_returns_all_complete_messages():
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
        with pytest.raises(ValueError, match="which is not this protocol"):
            receiver.receive(5)


def test_one_time_limit_for_a_message_in_pieces():
    with connected() as (receiver, sending):
        over = threading.Event()

        def drip():
            with contextlib.suppress(OSError):
                for byte in encode("x" * 500):
                    sending.sendall(bytes([byte]))
                    if over.wait(0.05):
                        return

        dripping = threading.Thread(target=drip)
        dripping.start()
        try:
            with pytest.raises(TimeoutError, match=r"no complete message arrived within 0.3 s|timed out"):
                receiver.receive(0.3)
        finally:
            over.set()
            dripping.join()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"[" * 50_000, "nested too deeply"),
        (b"\xff\xfe", "codec can't decode"),
        (b"rank", "Expecting value"),
        (b'"' + b"x" * 70_000 + b'"', "received a message of 70002 bytes; expected at most 65536"),
    ],
)
def test_damaged_messages(body, message):
    with connected() as (receiver, sending):
        receiver.largest = 1 << 16
        sending.sendall(b"TWP1" + len(body).to_bytes(4, "big") + body)
        with pytest.raises(ValueError, match=message):
            receiver.receive(5)


def test_a_large_message_is_refused_by_its_header():
    with connected() as (receiver, sending):
        receiver.largest = 1000
        sending.sendall(b"TWP1" + (1 << 29).to_bytes(4, "big"))
        with pytest.raises(ValueError, match="received a message of 536870912 bytes"):
            receiver.receive(5)


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(0, 300_000), max_size=20))
def test_posts_do_not_wait_and_arrive_complete(sizes):
    """A process that does not read yet receives everything later, in order."""
    with connected() as (sender, receiving), contextlib.closing(Connection(receiving)) as receiver:
        for number, size in enumerate(sizes):
            sender.post(encode([number, "x" * size]))
        messages = []
        while len(messages) < len(sizes):
            sender.post()
            messages += receiver.receive_pending()
        assert not sender.unsent
        assert [[number, len(text)] for number, text in messages] == [list(pair) for pair in enumerate(sizes)]


def test_a_post_to_a_closed_connection():
    with connected() as (sender, receiving):
        receiving.close()
        with pytest.raises(OSError, match=r"Broken pipe|reset"):
            for _ in range(100):
                sender.post(encode("x" * 100_000))
