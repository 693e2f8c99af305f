"""States written by an earlier version lead to the same datapoints as then.

The files in `golden/` are never written again; see `golden/write.py`.
"""

import gc
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from towerpack_dataflow import DataFromList, StateError

GOLDEN = Path(__file__).parent / "golden"


def load_trees():
    """The module of the trees. In no `sys.modules`, so that workers get its functions by value."""
    spec = importlib.util.spec_from_file_location("golden_trees", GOLDEN / "trees.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


trees = load_trees()
NAMES = [
    pytest.param(name, marks=pytest.mark.slow) if tree.processes else name
    for name, tree in trees.TREES.items()
]
HERE_ALONE = [name for name, tree in trees.TREES.items() if not tree.processes]


def golden(name):
    return json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))


def assert_followed(name, state, stored):
    """A state leads to the stored datapoints in a newly built flow."""
    tree = trees.TREES[name]
    flow = tree.build()
    flow.load_state_dict(state)
    assert trees.follow(iter(flow), flow, tree.ordered) == {key: stored[key] for key in ("rest", "next")}
    del flow
    gc.collect()  # ends the workers now, in the test that has started them


@pytest.mark.parametrize("name", NAMES)
def test_a_golden_state_leads_where_it_led(name):
    stored = golden(name)
    assert stored["rest"] and stored["next"]
    assert_followed(name, stored["state"], stored)


@pytest.mark.parametrize("name", HERE_ALONE)
def test_a_state_of_today_leads_there_too(name):
    """A state loaded and saved again, in any format, means the same."""
    stored = golden(name)
    flow = trees.TREES[name].build()
    flow.load_state_dict(stored["state"])
    assert_followed(name, json.loads(json.dumps(flow.state_dict())), stored)


@pytest.mark.parametrize("name", [name for name in HERE_ALONE if golden(name)["state"]["version"] == 1])
def test_a_state_without_a_version_is_of_version_1(name):
    stored = golden(name)
    assert stored["state"].pop("version") == 1
    assert_followed(name, stored["state"], stored)


def test_an_unknown_version_is_refused_with_the_one_that_is_read():
    state = {**golden("batches_of_shuffled_maps")["state"], "version": 99}
    with pytest.raises(
        StateError, match=r"has version 99, and this release reads version \d+ and .*; use the rel"
    ):
        DataFromList([1, 2, 3]).load_state_dict(state)


def test_each_tree_has_a_golden_state_and_each_state_a_tree():
    assert len(trees.TREES) >= 10
    assert {path.stem for path in GOLDEN.glob("*.json")} == set(trees.TREES)


@pytest.mark.slow
def test_golden_states_are_not_written_again():
    before = {path: path.read_bytes() for path in GOLDEN.glob("*.json")}
    done = subprocess.run([sys.executable, GOLDEN / "write.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "none is ever written again" in done.stderr
    assert {path: path.read_bytes() for path in GOLDEN.glob("*.json")} == before
