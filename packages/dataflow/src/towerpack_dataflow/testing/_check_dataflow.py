"""Checks that a flow keeps the promises of all flows of this package."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from ..storage import dump_by_value

__all__ = ["ConformanceError", "check_dataflow", "same", "shortened"]


class ConformanceError(AssertionError):
    """A flow, or another tested object, broke a promise; the message names it and the usual reason."""


def same(one: Any, other: Any) -> bool:
    """Tells whether two datapoints are equal in structure, types, dtypes, shapes and values; NaN equals NaN.

    Example:
        >>> same([np.float32(1), "a"], [np.float32(1), "a"]), same([1], [1.0])
        (True, False)
    """
    if type(one) is not type(other):
        return False
    if isinstance(one, (np.ndarray, np.generic)):
        return one.dtype == other.dtype and one.shape == other.shape and _same_values(one, other)
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other) or one != one


def _same_values(one: Any, other: Any) -> bool:
    if one.dtype.kind in "fc":
        return bool(np.array_equal(one, other, equal_nan=True))
    return bool(np.array_equal(one, other))


def shortened(value: Any) -> str:
    """Returns `value` as text of at most 120 characters, for messages."""
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "..."


_SEED = 20_000
_STATE_BYTES = 1024
_MADE_TOGETHER = 16
_IN_BLOCK = 4
_TAKEN_LIVE = 8
_REUSED = (
    "A datapoint must not change later: does the flow, or a function in it, write each one into the same "
    "array? Create a new array, or yield a copy; workers send datapoints some time after they are made."
)


def check_dataflow(flow: Any, *, limit: int = 200, positions: int = 12) -> None:
    """Checks that an object keeps the promises of a flow.

    Passes are repeatable by their seed, their length is `len()`, `reset_state()` may be called at any time,
    an iterator left early does not disturb the next pass, a state taken at any position and loaded into a
    copy yields the rest of the pass, a copy by cloudpickle has the original's position, changing a datapoint
    in place changes nothing in the flow, a datapoint stays unchanged when later ones are made, and blocks of
    datapoints, if the flow makes them, contain the same datapoints and have the same states.

    The datapoints of a live flow (`flow.live`) cannot be read again. The check takes at most 8 datapoints of
    such a flow; its state must be JSON and loadable.

    The check needs no pytest, and uses only the public protocol, so it accepts objects of any class.

    Args:
        flow: the flow, in its initial state; it is copied by cloudpickle for each check. For a flow that
            cannot be copied, a function that builds an equal one at each call.
        limit: largest number of datapoints to read in a pass; an endless flow is cut there.
        positions: number of positions in the pass at which to take a state, evenly distributed.

    Raises:
        ConformanceError: names the first broken promise.

    Example:
        >>> from towerpack_dataflow import BatchData, DataFromList
        >>> check_dataflow(BatchData(DataFromList([[i] for i in range(10)]), 3))
    """
    make = _maker(flow)
    if getattr(flow if not _is_factory(flow) else make(), "live", False):
        _check_live(make)
        return
    expected = _two_passes(make, limit)
    _check_repeatable(make, expected, limit)
    _check_length(make, expected[0], limit)
    _check_early_exit(make, expected, limit)
    _check_identity(make, limit)
    _check_states(make, expected, limit, positions)
    _check_unshared(make, expected, limit)
    _check_kept(make, expected, limit)
    _check_blocks(make, expected, limit)
    _check_random_access(make, expected)
    if not _is_factory(flow):
        _check_copy_in_mid_pass(make, expected, limit)


Make = Callable[[], Any]
Passes = list[list[Any]]


def _is_factory(flow: Any) -> bool:
    return callable(flow) and not hasattr(flow, "__iter__")


def _maker(flow: Any) -> Make:
    """Returns a function that creates a new, seeded flow at each call."""
    if _is_factory(flow):
        build = flow
    else:
        try:
            pickled = dump_by_value(flow)
        except Exception as error:
            raise ConformanceError(
                f"the flow cannot be copied by cloudpickle ({error}), so no worker process could run it; "
                "open files and sockets in reset_state(), or pass a function that builds the flow"
            ) from error

        def build() -> Any:
            return pickle.loads(pickled)

    def make() -> Any:
        made = build()
        made.seed(_SEED)
        return made

    return make


def _read(iterator: Iterator[Any], limit: int) -> list[Any]:
    """Returns deep copies of up to `limit` datapoints."""
    return [copy.deepcopy(datapoint) for datapoint in islice(iterator, limit)]


def _two_passes(make: Make, limit: int) -> Passes:
    flow = make()
    flow.reset_state()
    return [_read(iter(flow), limit), _read(iter(flow), limit)]


def _expect(received: list[Any], expected: list[Any], what: str, why: str) -> None:
    for number, (one, other) in enumerate(zip(received, expected)):
        if not same(one, other):
            raise ConformanceError(
                f"{what}: datapoint {number} differs: {shortened(one)} instead of {shortened(other)}. {why}"
            )
    if len(received) != len(expected):
        raise ConformanceError(f"{what}: {len(received)} datapoints instead of {len(expected)}. {why}")


def _check_repeatable(make: Make, expected: Passes, limit: int) -> None:
    why = "A pass may depend only on seed, epoch and index: does a random number have another source?"
    flow = make()
    for number in (0, 1):
        _expect(_read(iter(flow), limit), expected[number], f"pass {number} with the same seed, unreset", why)
    flow = make()
    for number in (0, 1):
        flow.reset_state()
        flow.reset_state()
        what = f"pass {number} after two more reset_state()"
        _expect(_read(iter(flow), limit), expected[number], what, "reset_state() must not move the position.")


def _check_length(make: Make, expected: list[Any], limit: int) -> None:
    flow = make()
    try:
        length = len(flow)
    except TypeError:
        return
    if len(expected) != min(length, limit):
        raise ConformanceError(
            f"len() returns {length}, but a pass has {len(expected)} datapoints. Make it exact, or let it "
            "raise TypeError; a map that drops datapoints needs drops=True"
        )


def _check_early_exit(make: Make, expected: Passes, limit: int) -> None:
    flow = make()
    _read(iter(flow), len(expected[0]) // 2)
    what = "the pass after one that was left early"
    _expect(_read(iter(flow), limit), expected[1], what, "iter() must start the next epoch at its beginning.")


def _check_identity(make: Make, limit: int) -> None:
    flow = make()
    if not hasattr(flow, "identity"):  # an object of another family
        return
    before = flow.identity()
    if wrong := {name: value for name, value in before.items() if not isinstance(value, (bool, int, str))}:
        raise ConformanceError(f"identity() returns integers, truth values and strings; received {wrong}")
    _read(iter(flow), limit)
    if (after := flow.identity()) != before:
        raise ConformanceError(
            f"identity() was {before} and is {after} after a pass, so the flow would refuse its own states. "
            "Keep values that change in attributes with other names than the constructor's arguments, or "
            "override identity()"
        )


def _check_states(make: Make, expected: Passes, limit: int, positions: int) -> None:
    count = len(expected[0])
    for position in sorted({round(step * count / positions) for step in range(positions + 1)}):
        flow = make()
        iterator = iter(flow)
        _read(iterator, position)
        state = _as_json(flow.state_dict(), getattr(flow, "addressable", False))
        for reset_first in (True, False):
            _check_resumed(make(), state, reset_first, expected, position, limit)


def _check_resumed(
    flow: Any, state: Any, reset_first: bool, expected: Passes, position: int, limit: int
) -> None:
    if reset_first:
        flow.reset_state()
    flow.load_state_dict(state)
    if not reset_first:
        flow.reset_state()
    what = f"the rest of a pass after a state taken at {position} was loaded into a copy"
    why = "A state holds the index of the next unseen datapoint, and the seed."
    _expect(_read(iter(flow), len(expected[0]) - position), expected[0][position:], what, why)
    _expect(_read(iter(flow), limit), expected[1], "the pass after that one", why)


def _as_json(state: Any, addressable: bool) -> Any:
    try:
        text = json.dumps(state)
    except TypeError as error:
        raise ConformanceError(f"state_dict() is not JSON: {error}; use integers and strings only") from error
    position = {key: state[key] for key in state if key != "flow"}  # without the description of the tree
    if addressable and len(json.dumps(position)) > _STATE_BYTES:
        raise ConformanceError(
            f"state_dict() of an addressable flow has {len(text)} bytes as JSON; a position is a few integers"
        )
    return json.loads(text)


def _check_unshared(make: Make, expected: Passes, limit: int) -> None:
    flow = make()
    for datapoint in islice(iter(flow), limit):
        if isinstance(datapoint, (list, dict)):
            datapoint.clear()
    what = "the pass after one with datapoints emptied by the consumer"
    _expect(_read(iter(flow), limit), expected[1], what, "Yield a copy of a list or dict that is kept.")
    flow.load_state_dict(make().state_dict())
    _expect(_read(iter(flow), limit), expected[0], what, "Yield a copy of a list or dict that is kept.")


def _check_kept(make: Make, expected: Passes, limit: int) -> None:
    """Checks that datapoints are values, not memory that is overwritten."""
    what = "a datapoint kept by the consumer while the flow made the next ones"
    why = _REUSED
    _expect(list(islice(iter(make()), limit)), expected[0], what, why)
    flow = make()
    if getattr(flow, "addressable", False):
        count = min(len(expected[0]), _MADE_TOGETHER)
        _expect([flow.datapoint(0, index) for index in range(count)], expected[0][:count], what, why)


def _check_blocks(make: Make, expected: Passes, limit: int) -> None:
    flow, single = make(), make()
    for number, first in ((0, 1), (1, _IN_BLOCK)):
        blocks = flow.iter_blocks(_IN_BLOCK, first) if hasattr(flow, "iter_blocks") else None
        if blocks is None:
            return
        received: list[Any] = []
        states: list[Any] = []
        for block in blocks:
            received += copy.deepcopy(_divided(block))
            states += flow.last_states(len(received) - len(states))
            if len(received) >= limit:
                break
        what = f"pass {number} in blocks"
        why = "iter_blocks() gives the datapoints of iter(), stacked."
        _expect(received[:limit], expected[number], what, why)
        if [single.state_dict() for _ in islice(single, limit)] != states[:limit]:
            raise ConformanceError(
                f"{what}: last_states() differs from the states of the same pass by iter()"
            )


def _divided(block: Any) -> list[Any]:
    """Returns the datapoints of a block."""
    if isinstance(block, dict):
        return [dict(zip(block, values)) for values in zip(*block.values())]
    make = getattr(type(block), "_make", type(block))  # a named tuple keeps its names
    return [make(values) for values in zip(*block)]


def _check_live(make: Make) -> None:
    """Checks the promises of a live flow with few datapoints: more may never come."""
    flow = make()
    state = _as_json(flow.state_dict(), True)
    both = [(datapoint, copy.deepcopy(datapoint)) for datapoint in islice(iter(flow), _TAKEN_LIVE // 2)]
    flow.load_state_dict(state)
    flow.load_state_dict(_as_json(flow.state_dict(), True))
    list(islice(iter(flow), _TAKEN_LIVE // 2))
    kept, copied = ([pair[side] for pair in both] for side in (0, 1))
    _expect(kept, copied, "a datapoint kept by the consumer while the flow made the next ones", _REUSED)


def _check_random_access(make: Make, expected: Passes) -> None:
    flow = make()
    if not getattr(flow, "addressable", False):
        return
    for epoch in (1, 0):
        for index in range(0, len(expected[epoch]), max(len(expected[epoch]) // 8, 1)):
            what = f"datapoint({epoch}, {index})"
            why = "It must equal the datapoint from iteration."
            _expect([flow.datapoint(epoch, index)], [expected[epoch][index]], what, why)


def _check_copy_in_mid_pass(make: Make, expected: Passes, limit: int) -> None:
    flow = make()
    iterator = iter(flow)
    half = len(expected[0]) // 2
    _read(iterator, half)
    copied = pickle.loads(dump_by_value(flow))
    what = "the rest of a pass, read from a copy made in the middle of it"
    why = "A pickled flow keeps seed and position."
    _expect(_read(iter(copied), len(expected[0]) - half), expected[0][half:], what, why)
