"""Reads a flow datapoint by datapoint, pass after pass, with its position. Needs no TensorFlow."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn, Protocol, final

from towerpack_dataflow import DataFlow, DataFlowTerminated

from .._errors import DatapointError, EmptyFlowError, FlowEndError, FlowPreemptionError
from ..specs import Array
from ._flow_protocol import in_itself, is_live, no_state, state_of

__all__ = ["FlowReader", "Position", "Reader"]

_log = logging.getLogger("towerpack_inputsource")

# The `state_dict()` of a flow; None for a flow that has no position.
Position = Any
Errors = tuple[type[Exception], ...]


class Reader(Protocol):
    """The part of a source from which a thread prefetches."""

    def restart(self, position: Position = None) -> Position:
        """Restarts at a position or at the beginning; returns the position before the first datapoint."""

    def dequeue(self) -> list[Array]:
        """Returns the next datapoint.

        Raises:
            StopIteration: the flow has ended.
        """

    def read(self) -> Any:
        """Returns the next datapoint before its check; otherwise like `dequeue`."""

    def checked(self, datapoint: Any) -> list[Array]:
        """Returns the arrays of the last datapoint read."""

    def position(self) -> Position:
        """Returns the position after the last datapoint taken."""

    def release(self) -> None:
        """Releases the resources of the pass after the end of the loop."""


@final
class FlowReader:
    """Reads a flow for one consumer: checked datapoints, and the position after the last one.

    Args:
        flow: any re-iterable object; `state_dict`, `load_state_dict`, `reset_state`, `lend_read_only` and
            `__len__` are used if available.
        infinite: start the next pass at the end of one.
        check: converts a datapoint to the arrays to feed, or raises a `DatapointError`.
        reads_as_end: exceptions that a session treats as a normal end; if a flow raises one, the reader
            raises a `FlowEndError` instead, so that it is not lost.
        reads_as_loss: exceptions after which a session restarts with new values of the variables; if a flow
            raises one, the reader raises a `FlowPreemptionError` instead.
    """

    def __init__(
        self,
        flow: Iterable[Any],
        infinite: bool,
        check: Callable[[Any], list[Array]],
        reads_as_end: Errors = (),
        reads_as_loss: Errors = (),
    ) -> None:
        self._flow = flow
        self._reads_as_end = reads_as_end
        self._reads_as_loss = reads_as_loss
        self._infinite = infinite
        self._check = check
        # A live flow has no position: its state is read when a state is saved, not with each datapoint.
        self._live = is_live(flow)
        self._save: Callable[[], Position] = no_state if self._live else state_of(flow)
        self._datapoints: Iterator[Any] = iter(())
        self._resumed = self._pass_may_be_empty = False
        self._pass_number = 0
        self._in_run = 0
        self._in_pass = 0

    def __repr__(self) -> str:
        return f"flow {self._flow!r}"

    def prepare(self) -> None:
        """Prepares the flow for reading, before a session has threads.

        A flow that lends its memory may lend it read-only: its views enter the graph without a copy.
        """
        if hasattr(self._flow, "lend_read_only"):
            self._flow.lend_read_only()
        if hasattr(self._flow, "reset_state"):
            self._flow.reset_state()

    def release(self) -> None:
        """Ends the pass of a live flow, so that connections and threads of the pass end with it.

        Passes of other flows are not ended, since their workers may already prepare the next one.
        """
        if self._live and hasattr(self._datapoints, "close"):
            self._datapoints.close()

    def restart(self, position: Position = None) -> Position:
        """Restarts at a position, or at the first datapoint of a new pass.

        Args:
            position: a position of the flow; for a live flow, its own state.

        Returns:
            The position before the first datapoint; None if unknown.

        Raises:
            FlowEndError: the flow raised one of `reads_as_end`.
            FlowPreemptionError: the flow raised one of `reads_as_loss`.
        """
        read_in_pass = self._in_pass
        self._in_run = self._in_pass = self._pass_number = 0
        try:
            if position is not None:
                self._flow.load_state_dict(position)  # type: ignore[attr-defined]
            before = self._save()
            # A position after the last datapoint of a pass, loaded here or earlier, leaves that pass empty.
            self._resumed = position is not None
            self._pass_may_be_empty = self._resumed or before is not None
            self._start_pass()
        except Exception as error:
            self._reraise(error)
        return self._position_of_new_pass(before, read_in_pass)

    def dequeue(self) -> list[Array]:
        """Returns the next datapoint, as the arrays to feed.

        Raises:
            DatapointError: the datapoint does not match the specs; the message has its index.
            Exception: the errors of `read`.
        """
        return self.checked(self.read())

    def read(self) -> Any:
        """Returns the next datapoint, as the flow yields it.

        Raises:
            StopIteration: the pass has ended, and the flow does not repeat; or the flow has raised
                `DataFlowTerminated`: no pass will give datapoints any more.
            EmptyFlowError: the flow repeats, but a whole pass gave no datapoint.
            FlowEndError: the flow raised one of `reads_as_end`.
            FlowPreemptionError: the flow raised one of `reads_as_loss`.
        """
        try:
            datapoint = self._next()
        except StopIteration:
            raise
        except DataFlowTerminated as error:
            _log.info("%s: %r has terminated: %s", self._where(), self._flow, error)
            raise StopIteration from error
        except Exception as error:
            self._reraise(error)
        self._in_run += 1
        self._in_pass += 1
        return datapoint

    def checked(self, datapoint: Any) -> list[Array]:
        """Returns the last datapoint read, as the arrays to feed.

        Raises:
            DatapointError: the datapoint does not match the specs; the message has its index.
        """
        try:
            return self._check(datapoint)
        except DatapointError as error:
            raise type(error)(f"{self._where(back=1)}: {error}") from None

    def position(self) -> Position:
        """Returns the position after the last datapoint taken."""
        return self._save()

    def _where(self, back: int = 0) -> str:
        in_run, in_pass = self._in_run - back, self._in_pass - back
        return f"Datapoint {in_run} (number {in_pass} of pass {self._pass_number}, all from 0)"

    def _reraise(self, error: Exception) -> NoReturn:
        """Raises an error of the flow with the datapoint's number; may change its type for sessions."""
        if isinstance(error, self._reads_as_end):
            raise FlowEndError(
                f"{self._where()}: the flow raised {type(error).__name__} ({error}), "
                "which a session treats as the end of the input. Raise another error, or simply end the flow."
            ) from error
        if isinstance(error, self._reads_as_loss):
            raise FlowPreemptionError(
                f"{self._where()}: the flow raised {type(error).__name__} ({error}), after which a "
                "monitored session would reset its variables and continue. Raise another error in the flow, "
                "or retry there."
            ) from error
        with contextlib.suppress(AttributeError):  # an error of a class without settable attributes
            error.add_note(f"{self._where()}, read from {self._flow!r}")
        raise error

    def _position_of_new_pass(self, before: Position, read_in_pass: int) -> Position:
        """Returns the position after `iter()`; None if it may still belong to the previous pass.

        Some iterables other than flows update their position only at the first datapoint of a new pass.
        """
        position = self._save()
        moved = isinstance(in_itself(self._flow), DataFlow) or position != before or not read_in_pass
        return position if moved else None

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
            self._pass_number += bool(self._in_pass or self._resumed)
            self._start_pass()
            for datapoint in self._datapoints:
                return datapoint
        raise EmptyFlowError(
            f"Pass {self._pass_number} over {self._flow!r} gave no datapoint, but the flow repeats. Check "
            "for an empty list or a filter that drops everything; an iterator gives only one pass."
        )
