"""Reads a flow datapoint by datapoint, pass after pass, with its position. Needs no TensorFlow."""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, NoReturn, Protocol, final

import numpy as np

from towerpack_dataflow import DataFlow, DataFlowTerminated, refit

from .._errors import DatapointError, EmptyFlowError, FlowEndError, FlowPreemptionError
from ..specs import Array

__all__ = [
    "FlowReader",
    "Position",
    "Reader",
    "RefittedState",
    "as_flow",
    "flow_batch_size",
    "flow_size",
    "flow_state",
    "in_itself",
    "is_endless",
    "is_live",
    "is_sharded",
    "loaded_position",
    "makes_blocks",
    "needs_no_training",
    "no_state",
    "refit_position",
    "seed_flow",
    "state_of",
    "unread_state",
]

_log = logging.getLogger("towerpack_inputsource")


def as_flow(flow: Any) -> Iterable[Any]:
    """Checks that a source can read a flow repeatedly, and returns it.

    Raises:
        TypeError: the flow is not iterable, gives only one pass, contains arrays instead of datapoints, or is
            a dataset of `tf.data`.
    """
    if not hasattr(flow, "__iter__"):
        raise TypeError(
            f"An input source reads a DataFlow or another iterable, but received {flow!r}."
            + (
                " For a function that returns an iterator, write DataFromGenerator(it)."
                if callable(flow)
                else ""
            )
        )
    if hasattr(flow, "element_spec"):  # detected by name, without TensorFlow
        raise TypeError(
            f"Received {flow!r}, which only TensorFlow can iterate over in a graph. Write "
            "TFDatasetInput(dataset), in a TrainConfig as data= instead of dataflow=."
        )
    if _is_columns(flow):
        raise TypeError(
            f"Received {_columns(flow)}, but each datapoint must be a list of components. For arrays with "
            "one example per row, write DataFromArrays([images, labels]), and BatchData(flow, 32) for "
            "batches."
        )
    if hasattr(flow, "__next__"):
        raise TypeError(
            f"Received the iterator {flow!r}, which allows only one pass. Pass a list, or a DataFlow such "
            "as DataFromGenerator(function)."
        )
    return flow  # type: ignore[no-any-return]


def _is_columns(flow: Any) -> bool:
    """Returns whether an object contains arrays instead of datapoints, without reading it."""
    if isinstance(flow, np.ndarray):
        return True
    return isinstance(flow, (list, tuple)) and bool(flow) and isinstance(flow[0], np.ndarray)


def _columns(flow: Any) -> str:
    if isinstance(flow, np.ndarray):
        return f"an array of shape {flow.shape}"
    return f"a {type(flow).__name__} of {len(flow)}, the first of them an array of shape {flow[0].shape}"


def seed_flow(flow: Any, seed: int) -> None:
    """Seeds a flow that supports seeds; other iterables are ignored."""
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


def is_endless(flow: Any) -> bool:
    """Returns whether passes of a flow never end, from its attribute `endless`."""
    return bool(getattr(flow, "endless", False))


def is_live(flow: Any) -> bool:
    """Returns whether a flow's datapoints are created while it is read, so that it has no position.

    A live flow has the attribute `live`. Its `state_dict()`, if any, is its own state instead of a position.
    """
    return bool(getattr(flow, "live", False))


def needs_no_training(flow: Any) -> bool:
    """Returns whether no datapoint of a flow waits for steps that use earlier ones."""
    flow = in_itself(flow)
    if isinstance(flow, (list, tuple)) or getattr(flow, "addressable", False):
        return True
    if not isinstance(flow, DataFlow) or type(flow).__iter__ is not DataFlow.__iter__:
        return False  # a generator of a user, for example
    below = flow.children()
    return bool(below) and all(map(needs_no_training, below))


def is_sharded(flow: Any) -> bool | None:
    """Returns whether a flow gives one process's share of an order; None if unknown."""
    return getattr(flow, "sharded", None)


def no_state() -> Any:
    """Returns the state of a flow without one."""
    return None


def in_itself(flow: Any) -> Any:
    """Returns the flow that a wrapper names in `reads`, or the flow itself."""
    return getattr(flow, "reads", flow)


def state_of(flow: Any) -> Callable[[], Any]:
    """Returns the function that returns a flow's state."""
    return getattr(flow, "state_dict", no_state)


def flow_state(flow: Any, position: Any) -> dict[str, Any]:
    """Returns the state of a flow for a source to save: the position, or the state of a live flow.

    Args:
        flow: the flow.
        position: its position; ignored for a live flow.
    """
    return {"live": state_of(flow)() or {}} if is_live(flow) else {"flow": position}


def unread_state(flow: Any, loaded: Any) -> dict[str, Any]:
    """Returns the state to save for a flow that has not been read yet.

    Args:
        flow: the flow.
        loaded: the state that the source will load into it; None if nothing.
    """
    if is_live(flow) and loaded is not None:
        return {"live": loaded}
    return flow_state(flow, state_of(flow)() if loaded is None else loaded)


def loaded_position(flow: Any, state: Mapping[str, Any]) -> Any:
    """Returns the state to load into a flow, from a source's state; None if there is none.

    Raises:
        ValueError: the state was not saved by a source over this kind of flow.
    """
    wanted = "live" if is_live(flow) else "flow"
    if wanted == "live" and set(state) == {"flow"}:
        _log.info("%r is live; ignoring the position in the saved state.", flow)
        return None
    if set(state) != {wanted}:
        kind = "reads a live flow" if wanted == "live" else "reads a flow with a position"
        raise ValueError(
            f"Received a state with {sorted(state)}, but a source that {kind} saves [{wanted!r}]. "
            "The run that saved it probably used another input source or another kind of flow."
        )
    loaded = state[wanted]
    if wanted == "live" and not loaded:
        return None
    if loaded is not None and not hasattr(flow, "load_state_dict"):
        raise ValueError(
            f"The state contains {'a state' if wanted == 'live' else 'a position'}, but {flow!r} has no "
            "load_state_dict() to restore it. Use the kind of flow with which the state was saved."
        )
    return loaded


@final
class RefittedState(NamedTuple):
    """A state translated for a source with other batches.

    Attributes:
        state: the state to load.
        was: datapoints in a batch of all processes together, when the state was saved.
        batch: datapoints in such a batch now.
        next_then: number of the next batch within the pass, when the state was saved.
        next_now: number of the next batch now.
        seen: datapoints of the pass that all processes together have already used.

    Example:
        >>> refitted = RefittedState({}, was=64, batch=32, next_then=10, next_now=20, seen=640)
        >>> refitted.next_now * refitted.batch == refitted.seen
        True
    """

    state: dict[str, Any]
    was: int
    batch: int
    next_then: int
    next_now: int
    seen: int


def refit_position(flow: Any, state: Mapping[str, Any]) -> RefittedState | None:
    """Translates the state of a flow saved by a source for loading into another flow.

    Args:
        flow: the flow that the source reads.
        state: the state of a source over a flow with another number of shards or another batch size.

    Returns:
        The translated state, or None if the batches of either flow are unknown.

    Raises:
        towerpack_dataflow.StateError: the batches differ, and the flow does not divide data in a known order.
    """
    flow, position = in_itself(flow), state.get("flow")
    if not isinstance(flow, DataFlow) or is_live(flow) or not isinstance(position, Mapping):
        return None
    theirs, ours = _batches(position), _batches(flow.state_dict())
    place = next((place for place in ours if place in theirs), None)
    if place is None:
        return None
    was, batch, first = theirs[place], ours[place], int(position["index"])
    marked = place in position.get("marks", {})
    fitted = refit(flow, position) if was != batch or marked else dict(position)
    index = int(fitted["index"])
    # The last number of a batches' mark is the index of the first batch's first datapoint.
    [*_, seen] = fitted.get("marks", {}).get(place, [index * batch])
    return RefittedState({**state, "flow": fitted}, was, batch, first, index, int(seen))


def _batches(position: Mapping[str, Any]) -> dict[str, int]:
    """Returns the total batch sizes over all shards of the flows in a tree, by place, root first."""
    facts = position.get("flow") or {}
    return {place: fact["batch_size"] for place, fact in facts.items() if "batch_size" in fact}


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

    def read_block(self) -> tuple[list[Array], list[Position]] | None:
        """Returns the next datapoints stacked, with their positions; None if `read` gives the next one."""

    def checked(self, datapoint: Any) -> list[Array]:
        """Returns the arrays of the last datapoint read."""

    def position(self) -> Position:
        """Returns the position after the last datapoint taken."""

    def release(self) -> None:
        """Releases the resources of the pass after the end of the loop."""


def makes_blocks(flow: Any) -> bool:
    """Returns whether a flow may give several datapoints at a time, by `DataFlow.iter_blocks`."""
    return isinstance(in_itself(flow), DataFlow) and hasattr(flow, "iter_blocks") and not is_live(flow)


def _datapoints_in(block: Any) -> list[Any]:
    """Returns the datapoints of a block; itself if it has no components, which no check accepts."""
    if not block:
        return [block]
    if isinstance(block, Mapping):
        return [dict(zip(block, values)) for values in zip(*block.values())]
    return list(zip(*block))


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
        check_block: converts a block of `DataFlow.iter_blocks` likewise; None to read single datapoints.
        most: the maximum number of datapoints in a block.
    """

    def __init__(
        self,
        flow: Iterable[Any],
        infinite: bool,
        check: Callable[[Any], list[Array]],
        reads_as_end: Errors = (),
        reads_as_loss: Errors = (),
        check_block: Callable[[Any], list[Array]] | None = None,
        most: int = 1,
    ) -> None:
        self._flow = flow
        self._reads_as_end = reads_as_end
        self._reads_as_loss = reads_as_loss
        self._infinite = infinite
        self._check = check
        self._check_block, self._most = check_block, most
        # A live flow has no position: its state is read when a state is saved, not with each datapoint.
        self._live = is_live(flow)
        self._save: Callable[[], Position] = no_state if self._live else state_of(flow)
        self._datapoints: Iterator[Any] = iter(())  # or blocks of them
        self._in_blocks = False
        self._rest: deque[Any] = deque()  # datapoints that were read and not given yet
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
        self._rest.clear()
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
        if self._rest:
            datapoint = self._rest.popleft()
        else:
            datapoint = self._next_read()
            if self._in_blocks:
                self._rest.extend(_datapoints_in(datapoint))
                datapoint = self._rest.popleft()
        self._in_run += 1
        self._in_pass += 1
        return datapoint

    def read_block(self) -> tuple[list[Array], list[Position]] | None:
        """Returns the next datapoints as one array per component, stacked, with the position after each.

        Returns:
            None if the next datapoint must be read alone: the flow makes single ones, this one is alone in
            its block, or one is invalid or empty.

        Raises:
            Exception: the errors of `read`.
        """
        if self._check_block is None or not self._in_blocks or self._rest:
            return None
        block = self._next_read()
        if not self._in_blocks:  # the first datapoint of the next pass
            self._rest.append(block)
            return None
        components = block.values() if isinstance(block, Mapping) else block
        try:
            arrays = self._check_block(block) if len(next(iter(components), ())) > 1 else []
        except DatapointError:
            arrays = []  # the check of each datapoint finds the invalid one
        if not arrays or not all(array.size for array in arrays):
            self._rest.extend(_datapoints_in(block))
            return None
        count = len(arrays[0])
        self._in_run += count
        self._in_pass += count
        return arrays, self._flow.last_states(count)  # type: ignore[attr-defined]

    def _next_read(self) -> Any:
        """Returns the next datapoint or block; errors are those of `read`."""
        try:
            return self._next()
        except StopIteration:
            raise
        except DataFlowTerminated as error:
            _log.info("%s: %r has terminated: %s", self._where(), self._flow, error)
            raise StopIteration from error
        except Exception as error:
            self._reraise(error)

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
        if self._rest and self._in_blocks:
            return self._flow.last_states(len(self._rest) + 1)[0]  # type: ignore[attr-defined]
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
        blocks = None
        if self._check_block is not None:  # a small first block of a run, so that its first step can begin
            blocks = self._flow.iter_blocks(self._most, self._most if self._in_run else 1)  # type: ignore[attr-defined]
        self._in_blocks = blocks is not None
        self._datapoints = iter(self._flow) if blocks is None else blocks

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
