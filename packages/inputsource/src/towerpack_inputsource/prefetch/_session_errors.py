"""The meaning of TensorFlow's errors: the end of the data, a lost session, or a session that was closed."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import tensorflow.compat.v1 as tf

__all__ = [
    "END_OF_DATA",
    "LOST_SESSION",
    "QUEUE_CLOSED",
    "SessionClosedError",
    "close_in_time",
    "session_may_be_closed",
]

# A monitored session takes the first for a clean end, and makes a new session after one of the others.
END_OF_DATA: tuple[type[Exception], ...] = (tf.errors.OutOfRangeError,)
LOST_SESSION: tuple[type[Exception], ...] = (tf.errors.AbortedError, tf.errors.UnavailableError)
# What a put raises when the queue has been closed, and any op when its session is closed meanwhile.
QUEUE_CLOSED: tuple[type[Exception], ...] = (tf.errors.CancelledError, tf.errors.AbortedError)
# A closed session refuses with either of them, and with this word; both types have other reasons as well.
_REFUSALS: tuple[type[Exception], ...] = (RuntimeError, tf.errors.FailedPreconditionError)
_WORDS = ("closed session", "session is closed", "session has been closed", "session was closed")

# How long to wait for TensorFlow to close a session, which takes milliseconds unless an op is stuck.
_CLOSE_SECONDS = 2.0


class SessionClosedError(Exception):
    """An op was run in a session that is closed."""


@contextlib.contextmanager
def session_may_be_closed() -> Iterator[None]:
    """Raises a `SessionClosedError` where an op failed because its session, or its queue, is closed.

    Raises:
        SessionClosedError: the session is closed; the cause is TensorFlow's error.
    """
    try:
        yield
    except QUEUE_CLOSED as error:
        raise SessionClosedError from error
    except _REFUSALS as error:
        text = str(error).lower()
        if any(words in text for words in _WORDS):
            raise SessionClosedError from error
        raise


def close_in_time(session: tf.Session) -> None:
    """Lets `session.close()` return although an op never ends; to be called when the session is created.

    TensorFlow's own waits for what it cannot cancel, such as Python code that a dataset calls; so does the
    deletion of the session. Here a thread closes it, and keeps it until then.
    """
    close = session.close
    if "close" in vars(session):
        return  # by another source

    def close_aside() -> None:
        thread = threading.Thread(target=close, name="towerpack-close", daemon=True)
        thread.start()
        thread.join(_CLOSE_SECONDS)
        vars(session).pop("close", None)

    session.close = close_aside
