"""Interleaved rounds: subjects are measured in turn, so that a busy machine slows all equally."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median

Figures = dict[str, list[float]]

# One short round of everything, to see that it runs: figures and targets mean nothing then. In the
# environment, so that processes of a benchmark know it, too.
if "--smoke" in sys.argv:
    os.environ["BENCHMARK_SMOKE"] = "1"
    sys.argv.remove("--smoke")
SMOKE = "BENCHMARK_SMOKE" in os.environ


def shorter(full: int, smoke: int = 1) -> int:
    """A number of rounds, steps or bytes, or a small one for a short run."""
    return smoke if SMOKE else full


def measure(subjects: Mapping[str, Callable[[], float]], rounds: int) -> Figures:
    """Measures each subject once per round, in turn; every second round in the opposite order.

    Args:
        subjects: functions that measure and return one figure, warmed up already.
        rounds: how many figures to take of each.

    Returns:
        The figures of each subject, one per round.
    """
    figures: Figures = {}
    for number in range(rounds):
        _round(number, subjects, figures)
    return figures


def warm_up(subjects: Mapping[str, Callable[[], float]], rounds: int = 1) -> None:
    """Measures once to fill file caches and byte code; skipped in a short run."""
    measure(subjects, shorter(rounds, 0))


def measure_afresh(
    start: Callable[[], AbstractContextManager[Mapping[str, Callable[[], float]]]], rounds: int
) -> Figures:
    """Like `measure`, with new and warmed-up subjects in each round.

    The same graph takes a few percent more or less time in one process than in the next: it depends on where
    its memory happens to lie.
    """
    figures: Figures = {}
    for number in range(rounds):
        with start() as subjects:
            _round(number, subjects, figures)
    return figures


def _round(number: int, subjects: Mapping[str, Callable[[], float]], figures: Figures) -> None:
    for name in list(subjects)[:: -1 if number % 2 else 1]:
        figures.setdefault(name, []).append(subjects[name]())


def ratios(one: list[float], other: list[float]) -> list[float]:
    """The quotient of two subjects' figures, round by round."""
    return [a / b for a, b in zip(one, other)]


def summary(values: list[float], form: str) -> str:
    """Median and range of some figures, each in the given format."""
    return f"{format(median(values), form)}  ({format(min(values), form)} to {format(max(values), form)})"


def load() -> str:
    """How busy the machine is, this benchmark included."""
    return f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def heading(*packages: str) -> str:
    """Date, machine and subject of the figures."""
    root = Path(__file__).parents[1]
    commit = subprocess.run(
        ["git", "-C", str(root), "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        check=False,
    )
    with open("/proc/cpuinfo") as file:
        model = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), "?")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = [f"Python {platform.python_version()}", *map(_version, packages)]
    made = f"{datetime.date.today().isoformat()}, commit {commit.stdout.strip() or 'unknown'}"
    return (
        f"{made}; {os.cpu_count()} x {model}, "
        f"{memory:.0f} GB, {platform.system()} {platform.release()}; {', '.join(versions)}; {load()}"
    )


def _version(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"{package} not installed"
