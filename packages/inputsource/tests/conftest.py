"""No test may leave a thread behind."""

import threading

import pytest


@pytest.fixture(autouse=True)
def no_thread_left():
    yield
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("towerpack")] == []
