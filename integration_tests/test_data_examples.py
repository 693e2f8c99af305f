"""The examples of data, run as scripts: each ends with a rate."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
FOLDER = Path(__file__).parents[1] / "examples" / "data"


def printed(script, *arguments):
    """The output of a script, in lines."""
    done = subprocess.run([sys.executable, FOLDER / script, *arguments], capture_output=True, text=True)
    assert done.returncode == 0 and "index_tar" not in done.stderr, done.stderr
    return done.stdout.splitlines()


def test_pictures_of_folders():
    (line,) = printed("imagenet_flow.py", "--pictures", "80", "--batch", "16", "--epochs", "1")
    assert re.fullmatch(r"\d+ images/s, 2 workers, batches of 16", line)


def test_a_budget_of_tokens_has_less_padding():
    fixed, budget = printed("token_budget.py", "--sentences", "5000")
    shares = [float(re.search(r"([\d.]+)% padding", line)[1]) for line in (fixed, budget)]
    assert shares[1] < 15 < shares[0] and "million tokens/s" in budget


def test_a_tar_in_an_object_store():
    store, cache = printed("tar_object_store.py", "--samples", "60")
    assert store.startswith("from the store: 60 samples") and cache.startswith("from the cache: 60 samples")
