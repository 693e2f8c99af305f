"""The cases that `--cases` takes of each parametrized test: the root's conftest.py."""

import importlib.util
import shutil
import subprocess
import sys
import tomllib
from itertools import product

import pytest
from source_files import ROOT

SUITE = """
import pytest


@pytest.mark.slow
@pytest.mark.parametrize("number", range(20))
def test_many(number):
    pass


@pytest.mark.slow
@pytest.mark.parametrize("letter", "abcde")
@pytest.mark.parametrize("number", range(7))
def test_product(number, letter):
    pass


@pytest.mark.parametrize("number", range(20))
def test_that_takes_milliseconds(number):
    pass


def test_alone():
    pass
"""


@pytest.fixture(scope="module")
def spread():
    spec = importlib.util.spec_from_file_location("few_cases", ROOT / "conftest.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.spread


@pytest.mark.parametrize("count", range(1, 30))
@pytest.mark.parametrize("most", [1, 2, 3, 5])
def test_no_test_is_left_out_wholly(spread, count, most):
    chosen = spread([{("number", place)} for place in range(count)], most)
    assert len(chosen) == min(most, count)
    assert 0 in chosen
    assert most == 1 or count - 1 in chosen


def test_cases_are_evenly_spread(spread):
    assert spread([{("number", place)} for place in range(9)], 3) == {0, 4, 8}


@pytest.mark.parametrize("sizes", [(2, 2), (2, 3), (7, 5), (49, 11), (3, 3, 3), (2, 9, 4)])
def test_each_value_of_a_product_is_taken(spread, sizes):
    cases = [set(enumerate(case)) for case in product(*map(range, sizes))]
    chosen = spread(cases, 3)
    assert set.union(*(cases[place] for place in chosen)) == set.union(*cases)
    assert len(chosen) <= max(3, 2 * max(sizes))


def run(tmp_path, *options):
    """Returns the tests that ran, by name, and the last line."""
    for file in ("conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / file, tmp_path)
    (tmp_path / "test_suite.py").write_text(SUITE)
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", *options]
    printed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100).stdout
    lines = [line.split("::")[1].split()[0] for line in printed.splitlines() if line.endswith("%]")]
    return lines, printed.splitlines()[-1]


def test_a_run_says_how_many_cases_are_left_out(tmp_path):
    ran, last = run(tmp_path, "--cases", "3")
    assert [name for name in ran if "many" in name] == ["test_many[0]", "test_many[10]", "test_many[19]"]
    assert len([name for name in ran if "product" in name]) == 7
    assert len([name for name in ran if "milliseconds" in name]) == 20
    assert "test_alone" in ran
    assert "31 passed, 45 deselected" in last


def test_every_case_runs_by_default_and_at_the_last_word(tmp_path):
    for options in ([], ["--cases", "3", "--every-case"]):
        ran, last = run(tmp_path, *options)
        assert len(ran) == 76
        assert "deselected" not in last


def test_all_long_tests_are_in_their_session():
    entry = tomllib.loads((ROOT / "sessions.toml").read_text())["endurance"]["long"]
    folders = [
        path for path in (ROOT / "packages").glob("*/tests") if any(map(is_long, path.rglob("test_*.py")))
    ]
    assert sorted(entry["tests"]) == sorted(str(path.relative_to(ROOT)) for path in folders)
    assert entry["files"] == sorted(
        path.name for path in (ROOT / "integration_tests").glob("test_*.py") if is_long(path)
    )


def is_long(path):
    return "pytest.mark.long" in path.read_text()
