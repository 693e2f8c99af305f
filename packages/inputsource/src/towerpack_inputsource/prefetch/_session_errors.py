"""Classifies TensorFlow's errors: end of the data, lost session, or closed session."""

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

# A monitored session treats the first as a normal end, and creates a new session after the others.
END_OF_DATA: tuple[type[Exception], ...] = (tf.errors.OutOfRangeError,)
LOST_SESSION: tuple[type[Exception], ...] = (tf.errors.AbortedError, tf.errors.UnavailableError)
# The errors of a put to a closed queue, and of any op during the closing of its session.
QUEUE_CLOSED: tuple[type[Exception], ...] = (tf.errors.CancelledError, tf.errors.AbortedError)
# A closed session raises either of them with one of these texts; both types also have other causes.
_REFUSALS: tuple[type[Exception], ...] = (RuntimeError, tf.errors.FailedPreconditionError)
_WORDS = ("closed session", "session is closed", "session has been closed", "session was closed")

# The maximum time to wait for the closing of a session, which takes milliseconds unless an op is stuck.
_CLOSE_SECONDS = 2.0


class SessionClosedError(Exception):
    """An op was run in a closed session."""


@contextlib.contextmanager
def session_may_be_closed() -> Iterator[None]:
    """Raises a `SessionClosedError` if an op failed because its session or queue is closed.

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
    """Makes `session.close()` return even if an op never ends; call it when the session is created.

    TensorFlow's method waits for ops that it cannot cancel, such as Python code called by a dataset; so does
    the deletion of the session. Here a thread closes the session and keeps a reference to it until then.
    """
    close = session.close
    if "close" in vars(session):
        return  # done by another source

    def close_aside() -> None:
        thread = threading.Thread(target=close, name="towerpack-close", daemon=True)
        thread.start()
        thread.join(_CLOSE_SECONDS)
        vars(session).pop("close", None)

    session.close = close_aside
