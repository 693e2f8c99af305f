"""Settings of hypothesis, and the strategies in `any_datapoints`, which several test files import."""

import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

# How long an example takes depends on what else the machine is doing; pytest-timeout catches what hangs.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")
