"""`DataFlow`: the base class of every flow."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from .. import _argument_checks as arguments
from .._errors import FlowDefinitionError, NotAddressableError, UnknownLengthError
from . import _flow_state
from ._columns import Blocks, Columns
from ._epoch import Epoch, Position, draw_seed
from ._flow_state import begin, begin_blocks
from ._node import Effect, find_flows, kept_attributes, set_attributes
from ._trace import Origin, Trace
from ._tree_fingerprint import kept_numbers, tree_text
from ._user_code import running
from ._written_flow import WrittenFlow, adapted

__all__ = ["DataFlow"]

_log = logging.getLogger("towerpack_dataflow")


class DataFlow:
    """Yields datapoints, pass after pass; abstract.

    A datapoint is a list, tuple or dict of components. Iterating a flow once is a *pass*, or epoch: a pure
    function of the seed, the epoch's number and the index it starts at.

    * every `iter(flow)` starts the next epoch at its beginning, however far the one before was read;
    * after `load_state_dict()` it starts exactly there;
    * two flows built alike with the same seed yield the same datapoints.

    A flow that can make datapoint *i* of epoch *e* directly is *addressable*: it resumes anywhere at once,
    and several iterators over it may run at the same time (`state_dict()` follows the youngest). Any other is
    a *stream*: it resumes by repeating the epoch and dropping the datapoints already seen.

    To write a flow, override one of:

    * `__len__` and `datapoint(epoch, index)`, for an addressable flow;
    * `__iter__`, as a generator, for a stream; `__len__` too if the length is known.

    All else follows. Four members change it: `children()`, the flows below that seeds, epochs and states
    reach; `identity()`, the settings that states belong to; `origins()`, the datapoints below that form a
    datapoint; and `effect`, an `Effect` on the datapoints.

    The datapoints of a *live* flow cannot be read again: a queue that others fill, a simulator. Such a stream
    sets `live = True`. It has no position, so nothing is skipped or repeated when a run resumes.

    A subclass need not call `super().__init__()`. Lists and dicts are copied (the container, not the
    components) when they leave such a flow, so that nothing downstream can change the data it holds.

    Example:
        >>> class Squares(DataFlow):
        ...     def __len__(self):
        ...         return 4
        ...     def datapoint(self, epoch, index):
        ...         return [index**2]
        >>> list(flow := Squares())
        [[0], [1], [4], [9]]
        >>> flow.load_state_dict({"seed": 0, "epoch": 1, "index": 3})
        >>> list(flow)
        [[9]]
    """

    # Class attributes, because subclasses need not call __init__.
    _seed: int | None = None
    _seed_drawn = False  # whether it was drawn, not given by a caller
    _position: Position | None = None
    _ready = False
    _running: Epoch | None = None
    _copied = False  # whether workers have copies of the flows below
    effect = Effect()

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Creates the object; a class with `__iter__` or `datapoint` has a `WrittenFlow` in front."""
        written = cls.__iter__ is not DataFlow.__iter__ or cls.datapoint is not DataFlow.datapoint
        made: Self = object.__new__(adapted(cls, DataFlow) if written else cls)
        return made

    def __bool__(self) -> bool:
        """Returns `True`: a flow is no container, and a stream has no length to ask for."""
        return True

    def __iter__(self) -> Iterator[Any]:
        """Starts the next pass, or the rest of the pass of a loaded state."""
        if isinstance(self, WrittenFlow):  # super().__iter__() in a subclass's own __iter__
            assert self._running is not None
            return self._inherited()._datapoints(self._running, 0)
        return begin(self)

    def __len__(self) -> int:
        """Returns the exact number of datapoints in a pass.

        Raises:
            UnknownLengthError: the length is unknown; it is a `TypeError`.
        """
        raise UnknownLengthError._since(f"{self._name()} does not know its length")

    @property
    def addressable(self) -> bool:
        """Whether `datapoint(epoch, index)` works."""
        return False

    @property
    def live(self) -> bool:
        """Whether datapoints cannot be read again; true for every flow over a live one."""
        below = (flow for _, flow in _flow_state.walk(self)[1:])
        return any(type(flow).live is not DataFlow.live and flow.live for flow in below)

    @property
    def endless(self) -> bool:
        """Whether no pass ends, as with `RepeatedData(flow, -1)`; a custom flow sets `endless = True`."""
        below = self.children() if type(self).__iter__ is DataFlow.__iter__ else ()
        return bool(below) and all(flow.endless for flow in below)

    @property
    def sharded(self) -> bool:
        """Whether the flow yields one host's share of an order, like `ShardData`; all hosts share a seed.

        A custom flow that divides an order sets the class attribute `sharded = True`.
        """
        below = (flow for _, flow in _flow_state.walk(self)[1:])
        return any(type(flow).sharded is not DataFlow.sharded and flow.sharded for flow in below)

    @property
    def fixed_batch_size(self) -> int | None:
        """Length of the first axis of every component of every datapoint; None if it may differ.

        `BatchData` without a remainder has one, and so do flows that pass on its batches.
        """
        if not self.effect.passes_on:
            return None
        sizes = {child.fixed_batch_size for child in self.children()}
        return sizes.pop() if len(sizes) == 1 else None

    def datapoint(self, epoch: Any, index: int) -> Any:  # `Any`: overrides may read `epoch.rng`
        """Makes datapoint `index` of pass `epoch`, independently of all iterators.

        Args:
            epoch: number of the pass, from 0. An override of this method receives it as an `Epoch`, whose
                `rng(index)` gives the random numbers of this datapoint.
            index: number of the datapoint, from 0 to `len(self) - 1`.

        Raises:
            NotAddressableError: the flow is a stream.
            IndexError: there is no such datapoint.
            ArgumentError: `epoch` is not an integer from 0 up.
            ArgumentTypeError: `index` is not an integer.
        """
        index = self._checked_index(
            index, f" is a stream: it has no datapoint({epoch}, {{}}); iterate over it"
        )
        datapoint = self._inherited()._datapoint(self._rooted(epoch), index)
        if not self.addressable:
            raise NotAddressableError(
                f"{self._name()} turned out to drop datapoints, so that index {index} has no fixed meaning; "
                "say so with MapData(..., drops=True) and iterate"
            )
        return datapoint

    def children(self) -> tuple[DataFlow, ...]:
        """Returns the flows directly below, in the order of their places.

        By default, these are the flows in the attributes, and those in lists, tuples, dicts and dataclasses
        there. Override it to leave out a flow that the class holds and does not read.
        """
        return tuple(find_flows(self, DataFlow))

    def identity(self) -> dict[str, bool | int | str]:
        """Returns the settings that states of this flow belong to, by name.

        A flow with other settings refuses such a state. By default, these are the numbers and truth values
        among the constructor's arguments that an attribute of the same name holds, with or without a leading
        underscore. Override the method to add a setting that changes the datapoints, or to leave one out.

        Returns:
            Numbers, truth values and strings; a float as its `repr`.
        """
        return kept_numbers(self)

    def origins(self, epoch: Epoch, index: int) -> Iterable[Origin] | None:
        """Returns the datapoints that form datapoint `index` of pass `epoch` of an addressable flow.

        Override it in a flow with datapoints from other indices below; it makes none. Streams have none.

        Args:
            epoch: epoch of this flow.
            index: number of the datapoint.

        Returns:
            The datapoints directly below, in order, or `Origins` with notes; `None` if unknown.
        """
        return []

    def reset_state(self) -> None:
        """Prepares for iteration in this process; an override opens files or connections here.

        The first iteration calls it, unless it was called before. It may be called any number of times and
        never moves the position. An override calls `super().reset_state()` for the flows below.
        """
        for child in self.children():
            child.reset_state()
        self._ready = True

    def seed(self, seed: int) -> None:
        """Sets the seed of this flow and of all below it, effective from the next pass.

        A flow without a seed draws one at its first iteration, logs it, and keeps it in its state. A seed set
        on a flow further down applies unless a flow above it is seeded afterwards.

        Raises:
            ArgumentError: `seed` is not an integer from 0 up.
        """
        number = arguments.count("a seed", seed, least=0, most=None)
        for _, flow in _flow_state.walk(self):
            flow._seed, flow._seed_drawn = None, False
        self._seed, self._seed_drawn = number, False
        if (position := self._position) is not None and not position.started:
            epoch = Epoch(position.epoch, number, (), position.epoch.marks)
            self._position = Position(epoch, position.index)

    def state_dict(self) -> dict[str, Any]:
        """Returns the position of the next datapoint that the consumer has not seen, and the seed.

        While the consumer holds datapoint 7 the position is 8. The state is a few integers, ready for JSON;
        `"version"` is its format, and `"flow"` describes its flow. A live flow has no position; its state
        holds those of live flows below that define `state_dict()`.
        """
        return _flow_state.dump(self)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next `iter()` start where `state` was taken, with the seeds of that time.

        A state taken before the first datapoint returns the flow to its beginning.

        Args:
            state: from `state_dict()` of a flow built alike, before or after `reset_state()`.

        Raises:
            StateError: `state` is not a state, has a format that this release does not read, or belongs to a
                flow with other kinds, lengths, batches or orders, listed in `StateError.differences`. Nothing
                is changed.
        """
        if self.live:
            _flow_state.load_live(self, state)
        else:
            self._position = _flow_state.load(self, state)

    def trace(self, index: int, epoch: int = 0) -> Trace:
        """Computes the origin of datapoint `index` of pass `epoch` without making a datapoint.

        Args:
            index: number of the datapoint, from 0 to `len(self) - 1`.
            epoch: number of the pass, from 0.

        Raises:
            NotAddressableError: the flow is a stream.
            IndexError: there is no such datapoint.
            ArgumentError: `epoch` is not an integer from 0 up.
            ArgumentTypeError: `index` is not an integer.
        """
        unknown = (
            " is a stream: the origin of its datapoint {} is known only after making all before it; trace a "
            "flow below it that is addressable"
        )
        return Trace.of(self, self._rooted(epoch), self._checked_index(index, unknown))

    def state_at(self, n: int) -> dict[str, Any]:
        """Returns the state of this flow after its first `n` datapoints, counted from epoch 0.

        The position of the flow is unchanged. Loaded into a flow built alike, the state continues with
        datapoint `n % len(self)` of epoch `n // len(self)`; a stream repeats the epoch up to there.

        Args:
            n: number of datapoints of this flow; of batches if it yields batches.

        Raises:
            ArgumentError: `n` is not an integer from 0 up, or is above 0 for a flow without datapoints.
            NotAddressableError: the flow is live, so it has no position.
            UnknownLengthError: the flow does not have a known length, so the start of an epoch is unknown.
        """
        return _flow_state.at(self, arguments.count("n", n, least=0, most=None))

    def lend_read_only(self) -> None:
        """Promises that the consumer writes to no array of this flow, which may then lend its memory.

        Input sources call this. Flows with workers then yield read-only views of shared memory, which enter a
        graph without a copy and stay valid while a view exists. Flows that only count, repeat or observe
        datapoints pass on the promise. A map does not: its function may write; put it below the workers.
        """
        if self.effect.passes_on:
            for child in self.children():
                child.lend_read_only()

    def iter_blocks(self, most: int, first: int = 1) -> Iterator[Any] | None:
        """Starts the next pass, like `iter(flow)`, and yields several small datapoints at a time, stacked.

        A block is like a datapoint, with one more axis in front, and is never written to again. It has fewer
        datapoints if they take more than about 2 ms together, or have other shapes.

        Args:
            most: the maximum number of datapoints in a block.
            first: the maximum in the first block; each one may have twice as many as the one before.

        Returns:
            The blocks; None, without starting a pass, if single datapoints are as fast.

        Raises:
            ArgumentError: a number is not an integer from 1 up.

        Example:
            >>> import numpy as np
            >>> from towerpack_dataflow import BatchData, DataFromArrays
            >>> flow = BatchData(DataFromArrays([np.arange(8)], shuffle=False), 2)
            >>> [numbers.tolist() for (numbers,) in flow.iter_blocks(2, first=2)]
            [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]
        """
        return begin_blocks(self, arguments.count("most", most), arguments.count("first", first))

    def last_states(self, count: int) -> list[dict[str, Any]]:
        """Returns the states after each of the last `count` datapoints of a block, in order."""
        return _flow_state.dump_last(self, count)

    def __repr__(self) -> str:
        """Shows the tree below, with non-default arguments and the sizes of data."""
        return tree_text(self, DataFlow)

    # The protocol between flows, for operators and the runtime.

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]:
        """Yields the datapoints of a pass from number `start` on, if any; keeps the position."""
        raise FlowDefinitionError(
            f"{type(self).__name__} yields nothing: override __iter__, or __len__ and datapoint(epoch, index)"
        )

    def _datapoint(self, epoch: Epoch, index: int) -> Any:
        """Makes one datapoint of an addressable flow; returns `None` if a map below dropped it."""
        return next(self._datapoints(epoch, index), None)

    def _columns(self) -> Columns | None:
        """Returns the layout of batches that the flow fills itself; such a flow is addressable or endless."""
        return None

    def _blocks(self, epoch: Epoch, start: int, most: int, first: int) -> Blocks | None:
        """Returns the blocks of a pass from number `start` on."""
        return None

    def _below(self, epoch: Epoch, place: int = 0, number: int | None = None) -> Epoch:
        """Returns `epoch` for child `place`."""
        child = self.children()[place]
        return epoch.below(None if self.effect.keeps_place else place, number, child._seed)

    def _enter(self, epoch: Epoch) -> None:
        """Prepares for a pass through a subclass's own `__iter__`."""
        self._running = epoch

    def _loaded(self, mark: Iterable[int] | None) -> None:
        """Discards all that earlier passes left, and takes the mark in a loaded state, if any."""

    def _checked_index(self, index: int, in_stream: str) -> int:
        """Checks the index of a datapoint; `in_stream` ends the message of a stream, with {} for it."""
        index = arguments.position("index", index)
        if not self.addressable:
            raise NotAddressableError(f"{self._name()}{in_stream.format(index)}")
        if not 0 <= index < len(self):
            raise IndexError(f"datapoint {index} of {self._name()}: a pass has {len(self)} datapoints")
        return index

    def _keeps_own_state(self) -> bool:
        return type(self).state_dict is not DataFlow.state_dict

    def _inherited(self) -> Any:
        """Returns the methods between flows; of an adapted flow, those of its base, for `super()` calls."""
        return super(WrittenFlow, self) if isinstance(self, WrittenFlow) else self

    def _name(self) -> str:
        """Returns the name of this flow for messages."""
        return type(self).__name__

    def _rooted(self, epoch: int) -> Epoch:
        """Returns `epoch` with this flow as the root of its tree; draws a missing seed.

        Inside another flow's pass this flow counts as one below it, and the seed of the other flow applies.
        """
        if isinstance(epoch, Epoch):
            return epoch
        epoch = arguments.count("epoch", epoch, least=0, most=None)
        if (outer := running.get()) is not None:
            return outer.numbered(self, epoch)
        if self._seed is None:
            self._seed, self._seed_drawn = draw_seed(), True
            _log.info("%s: drew seed %d; seed(%d) repeats this run", self._name(), self._seed, self._seed)
        return Epoch(epoch, self._seed)

    def __getstate__(self) -> dict[str, Any]:
        """A copy continues at this flow's position, and runs `reset_state()` again in its process."""
        return kept_attributes(self, ("_ready", "_running"))

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restores the attributes of a pickled flow."""
        set_attributes(self, state)
