"""Settings of all tests; `--cases` takes a few cases of each. nox copies this file with the tests."""

from __future__ import annotations

import gc
import importlib.util
import os
import sys
from collections import defaultdict

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option with which `nox` takes a part of the cases, and the one that undoes it."""
    group = parser.getgroup("cases")
    group.addoption("--cases", type=int, metavar="MOST", help="about MOST cases of each parametrized test")
    group.addoption("--every-case", dest="cases", action="store_const", const=None, help="undo --cases")


def pytest_configure(config: pytest.Config) -> None:
    """Sets up hypothesis, which some environments lack."""
    if importlib.util.find_spec("hypothesis") is None:
        return
    from hypothesis import settings

    most = settings.default.max_examples if config.getoption("cases") is None else 25
    # The time of an example depends on the load of the machine; pytest-timeout catches hanging tests.
    # Examples are the same in each run, except in `endurance(exact)`, which looks for others.
    same = "TOWERPACK_EXAMPLES" not in os.environ
    settings.register_profile("any machine", deadline=None, derandomize=same, max_examples=most)
    settings.load_profile("any machine")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects the cases that `--cases` leaves out: the same in each process, and never all of a test."""
    most = config.getoption("cases")
    families = defaultdict(list)
    for item in items:
        # Without TensorFlow, the cases of a test that is not marked take milliseconds.
        costly = item.get_closest_marker("slow") or "tensorflow" in sys.modules
        if most is not None and isinstance(item, pytest.Function) and hasattr(item, "callspec") and costly:
            families[item.nodeid.partition("[")[0]].append(item)
    left_out = set()
    for family in families.values():
        values = [{(name, id(value)) for name, value in item.callspec.params.items()} for item in family]
        chosen = spread(values, most)
        left_out.update(item for place, item in enumerate(family) if place not in chosen)
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]


def spread(cases: list[set], most: int) -> set[int]:
    """Returns the places of `most` cases, far apart, beginning with the first and the last one.

    Of a product of parameters, cases with new values come first, and are as many as it takes for each value
    to be there.

    Args:
        cases: the values of each case.
        most: the number of cases, at least 1.
    """
    # A list of cases, instead of a product, has a new value in each of them.
    product = len(set.union(*cases)) < len(cases)
    chosen, seen = {0}, set(cases[0])
    while len(chosen) < len(cases):
        rest = [place for place in range(len(cases)) if place not in chosen]
        gains = {
            place: (len(cases[place] - seen), min(abs(place - each) for each in chosen)) for place in rest
        }
        best = max(rest, key=lambda place: (gains[place], place))
        if len(chosen) >= most and not (product and gains[best][0]):
            break
        chosen.add(best)
        seen |= cases[best]
    return chosen


def pytest_collection_finish() -> None:
    """Spares the collector of garbage all that the tests have imported, which is most of its work."""
    gc.collect()
    gc.freeze()
