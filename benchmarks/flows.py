"""Operators of towerpack-dataflow compared with Tensorpack's and plain generators, and their memory.

    python benchmarks/flows.py [--smoke]
    nox -s bench -- flows                       with Tensorpack installed

Each ratio is of one round, in which all are measured in turn, each in a process of its own. A plan of batches
is timed in this one: from the lengths to a flow, and from a saved position to the next batch. The memory is
the most that Python's and NumPy's allocators held at a time during two passes over a million records of 1 KB,
beyond what they held before.
"""

from __future__ import annotations

import tracemalloc
from collections import deque
from collections.abc import Callable
from functools import partial

import _operators
import _rounds
import _upstream
import _verdicts

ROUNDS = _rounds.shorter(7)
COUNT = _rounds.shorter(1_000_000, 20_000)
MOST = 1.0  # MB; the largest buffer of an operator in the list is 0.2 MB
OURS = {
    "ours": _operators.our_shuffles,
    "ten maps": _operators.ten_maps,
    "ten generators": _operators.ten_generators,
    "ten operators": _operators.ten_operators,
    "ten plain operators": _operators.ten_plain_operators,
}


def speed(verdicts: _verdicts.Verdicts) -> None:
    """Shuffles compared with Tensorpack's, and chains compared with plain generators."""
    ours = {name: partial(make, COUNT) for name, make in OURS.items()}
    theirs = {"Tensorpack 0.11": partial(_operators.their_shuffles, COUNT)}
    with _upstream.beside(ours, {} if _rounds.SMOKE else theirs) as subjects:
        _rounds.warm_up(subjects)
        figures = _rounds.measure(subjects, ROUNDS)
    for size in _operators.BUFFERS:
        rate = figures[f"ours, {size}"]
        verdicts.untargeted(f"LocallyShuffleData, buffer of {size}: datapoints/s", rate, ",.0f")
        if (other := figures.get(f"Tensorpack 0.11, {size}")) is not None:
            what = f"LocallyShuffleData, buffer of {size}: rate / Tensorpack's"
            # A buffer of 100 spends its time on beginning ranges, not on datapoints.
            judge = partial(verdicts.at_least, limit=2) if size >= 1000 else verdicts.untargeted
            judge(what, _rounds.ratios(rate, other))
    maps = _rounds.ratios(figures["ten generators"], figures["ten maps"])
    verdicts.at_most("ten maps: time / plain generators", maps, 1.2)
    # States cost time: those of a filter and of a pass of fixed size are kept with each datapoint.
    kinds = _rounds.ratios(figures["ten plain operators"], figures["ten operators"])
    verdicts.untargeted("ten operators of different kinds: time / plain generators", kinds)


def planning(verdicts: _verdicts.Verdicts) -> None:
    """Planning of batches with a budget of tokens, and resuming in the middle of an epoch."""
    figures = _rounds.measure(
        {
            f"{kind}, window={window}": partial(measure, COUNT, window)
            for window in (None, 4096)
            for kind, measure in {"plan": _operators.plans, "resume": _operators.resumes}.items()
        },
        ROUNDS,
    )
    for name, seconds in figures.items():
        verdicts.at_most(
            f"BatchByBudget over {COUNT:,} lengths, {name}: ms",
            [1e3 * value for value in seconds],
            1000 if name.startswith("plan") else 10,
        )


def megabytes(make: Callable[[int], object], count: int) -> float:
    """The most memory that two passes need."""
    deque(make(100), maxlen=0)  # imports what is imported when it is needed
    flow = make(count)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    deque(_operators.again(flow), maxlen=0)
    most = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    return most / 2**20


def memory(verdicts: _verdicts.Verdicts) -> None:
    """The memory of each operator during a pass over a million records."""
    for name, make in _operators.OPERATORS.items():
        verdicts.at_most(f"{name}: MB for {COUNT:,} records", [megabytes(make, COUNT)], MOST)


def main() -> None:
    """Measures everything, and prints it."""
    print(_rounds.heading("numpy", "towerpack-dataflow", "tensorpack"))
    verdicts = _verdicts.Verdicts()
    speed(verdicts)
    planning(verdicts)
    memory(verdicts)
    verdicts.leave()


if __name__ == "__main__":
    main()
