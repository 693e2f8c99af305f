"""No test may leave a thread behind."""

import threading

import pytest
from hypothesis import settings

# The time of an example depends on the load of the machine; pytest-timeout catches hangs.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")


@pytest.fixture(autouse=True)
def no_thread_left():
    yield
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("towerpack")] == []
