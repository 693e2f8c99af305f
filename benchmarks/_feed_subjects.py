"""The subjects of benchmarks/loaders.py, each measured in a separate process.

python benchmarks/_feed_subjects.py SCENARIO SUBJECT
"""

from __future__ import annotations

import os

import _feed_images  # noqa: F401 - registers its subjects, as the others do
import _feed_ranks  # noqa: F401
import _feed_starts  # noqa: F401
import _feed_tables  # noqa: F401
import _feed_tokens  # noqa: F401
from _feed import SUBJECTS
from _loaders import serve

if __name__ == "__main__":
    serve(SUBJECTS)
    os._exit(0)  # some libraries never end
