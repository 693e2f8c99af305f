"""No test may leave a thread behind."""

import os
import threading

import pytest
from hypothesis import settings

# The time of an example depends on the load of the machine; pytest-timeout catches hanging tests. Examples
# are the same in each run, except in `endurance(exact)`, which looks for others.
settings.register_profile("any machine", deadline=None, derandomize="TOWERPACK_EXAMPLES" not in os.environ)
settings.load_profile("any machine")


@pytest.fixture(autouse=True)
def no_thread_left():
    yield
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("towerpack")] == []
