"""Lets test files import the strategies in `any_datapoints`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
