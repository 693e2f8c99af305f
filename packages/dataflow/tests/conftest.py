"""Settings of hypothesis, and the strategies in `any_datapoints`, which several test files import."""

import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

# The time of an example depends on the load of the machine; pytest-timeout catches hanging tests.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")
