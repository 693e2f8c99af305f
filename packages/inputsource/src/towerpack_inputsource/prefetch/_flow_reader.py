"""Reads a flow datapoint by datapoint, pass after pass, with its position. Free of TensorFlow."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, final

from .._errors import DatapointError, EmptyFlowError, FlowEndError
from ..specs import Array

__all__ = [
    "FlowReader",
    "Position",
    "Reader",
    "as_flow",
    "checked_position",
    "flow_batch_size",
    "flow_size",
    "seed_flow",
]

# The `state_dict()` of a flow; None for a flow that has no position.
Position = Any


class Reader(Protocol):
    """The side of a source that a thread prefetches from."""

    def restart(self, position: Position = None) -> Position:
        """Starts over, at a position or at the beginning; returns the position before the first datapoint."""

    def take(self) -> list[Array]:
        """Returns the next datapoint.

        Raises:
            StopIteration: the flow is at its end.
        """

    def position(self) -> Position:
        """Returns the position after the last datapoint taken."""


@final
class FlowReader:
    """Reads a flow for one consumer: checked datapoints, and the position after the last one.

    Args:
        flow: any iterable that can be iterated again; `state_dict`, `load_state_dict`, `reset_state`,
            `lend_read_only` and `__len__` are used where it has them.
        infinite: start the next pass at the end of one.
        check: turns a datapoint into the arrays to feed, or raises a `DatapointError`.
        reads_as_end: an exception that a session takes for a clean end; where a flow raises it, the reader
            raises a `FlowEndError` instead, so that nothing is lost.
    """

    def __init__(
        self,
        flow: Iterable[Any],
        infinite: bool,
        check: Callable[[Any], list[Array]],
        reads_as_end: type[Exception],
    ) -> None:
        self._flow = flow
        self._reads_as_end = reads_as_end
        self._infinite = infinite
        self._check = check
        self._save: Callable[[], Position] = getattr(flow, "state_dict", _no_position)
        self._datapoints: Iterator[Any] = iter(())
        self._was_read = False
        self._pass_may_be_empty = False
        self._pass_number = 0
        self._in_run = 0
        self._in_pass = 0

    def prepare(self) -> None:
        """Makes the flow ready to be read, before a session has threads.

        A flow that lends its memory may lend it read-only: views of it go into the graph without a copy.
        """
        if hasattr(self._flow, "lend_read_only"):
            self._flow.lend_read_only()
        if hasattr(self._flow, "reset_state"):
            self._flow.reset_state()

    def restart(self, position: Position = None) -> Position:
        """Starts over: at a position, or at the first datapoint of a new pass.

        Returns:
            The position before the first datapoint; None where it is unknown.
        """
        if position is not None:
            self._flow.load_state_dict(position)  # type: ignore[attr-defined]
        # In the middle of a pass, `state_dict()` is a position in that pass, not in the one that begins.
        origin = self._save() if position is not None or not self._was_read else None
        self._was_read = True
        # Saved behind the last datapoint of a pass, a position has nothing left in that pass.
        self._pass_may_be_empty = position is not None
        self._in_run = self._pass_number = 0
        self._start_pass()
        return origin

    def take(self) -> list[Array]:
        """Returns the next datapoint, as the arrays to feed.

        Raises:
            StopIteration: the pass is at its end, and the flow does not repeat.
            EmptyFlowError: the flow repeats, and a whole pass gave no datapoint.
            DatapointError: the datapoint does not fit the specs; the text has its index.
            FlowEndError: the flow raised `reads_as_end`.
        """
        try:
            datapoint = self._next()
        except self._reads_as_end as error:
            raise FlowEndError(
                f"{self._where()}: the flow raised {type(error).__name__} ({error}), "
                "which a session takes for the end of the input. Raise another error, or just end the flow."
            ) from error
        except Exception as error:
            if not isinstance(error, StopIteration):
                with contextlib.suppress(AttributeError):  # an error of a class without settable attributes
                    error.add_note(f"{self._where()}, read from {self._flow!r}")
            raise
        try:
            arrays = self._check(datapoint)
        except DatapointError as error:
            raise type(error)(f"{self._where()}: {error}") from None
        self._in_run += 1
        self._in_pass += 1
        return arrays

    def position(self) -> Position:
        """Returns the position after the last datapoint taken."""
        return self._save()

    def _where(self) -> str:
        return f"Datapoint {self._in_run} (number {self._in_pass} of pass {self._pass_number}, all from 0)"

    def _next(self) -> Any:
        try:
            return next(self._datapoints)
        except StopIteration:
            if not self._infinite:
                raise
            return self._first_of_next_pass()

    def _start_pass(self) -> None:
        self._in_pass = 0
        self._datapoints = iter(self._flow)

    def _first_of_next_pass(self) -> Any:
        while self._in_pass or self._pass_may_be_empty:
            self._pass_may_be_empty = False
            self._pass_number += 1
            self._start_pass()
            for datapoint in self._datapoints:
                return datapoint
        raise EmptyFlowError(
            f"Pass {self._pass_number} over {self._flow!r} gave no datapoint, and the flow repeats. "
            "Look for an empty list or a filter that lets nothing through; an iterator gives one pass only."
        )


def as_flow(flow: Any) -> Iterable[Any]:
    """Checks that a source can read a flow again and again, and returns it.

    Raises:
        TypeError: the flow is no iterable, or gives one pass only.
    """
    if not hasattr(flow, "__iter__"):
        raise TypeError(f"An input source reads a DataFlow or another iterable, but received {flow!r}.")
    if hasattr(flow, "__next__"):
        raise TypeError(
            f"Received the iterator {flow!r}, which can be gone through once only. "
            "Pass a list, or a DataFlow such as DataFromGenerator(function)."
        )
    return flow  # type: ignore[no-any-return]


def seed_flow(flow: Any, seed: int) -> None:
    """Seeds a flow that takes a seed; another iterable has nothing to seed."""
    if hasattr(flow, "seed"):
        flow.seed(seed)


def flow_size(flow: Any) -> int | None:
    """Returns the number of datapoints in a pass, or None if it is unknown."""
    try:
        return len(flow)
    except (TypeError, NotImplementedError):
        return None


def flow_batch_size(flow: Any) -> int | None:
    """Returns the length of the first axis of all components, or None if it is unknown."""
    return getattr(flow, "fixed_batch_size", None)


def checked_position(flow: Any, state: Mapping[str, Any]) -> Position:
    """Returns the flow's position out of a source's state.

    Raises:
        ValueError: the state was not saved by a source over such a flow.
    """
    if set(state) != {"flow"}:
        raise ValueError(
            f"Received a state with {sorted(state)}, but a source that reads a flow saves ['flow']. "
            "Was the run that saved it using another input source?"
        )
    if state["flow"] is not None and not hasattr(flow, "load_state_dict"):
        raise ValueError(
            f"The state holds a position, but {flow!r} has no load_state_dict() to restore it. "
            "Give the kind of flow that the state was saved with."
        )
    return state["flow"]


def _no_position() -> Position:
    return None
