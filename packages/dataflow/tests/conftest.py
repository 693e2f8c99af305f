"""Settings of hypothesis, and the strategies in `any_datapoints`, which several test files import."""

import os
import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

# The time of an example depends on the load of the machine; pytest-timeout catches hanging tests. Examples
# are the same in each run, except in `endurance(exact)`, which looks for others.
settings.register_profile("any machine", deadline=None, derandomize="TOWERPACK_EXAMPLES" not in os.environ)
settings.load_profile("any machine")
