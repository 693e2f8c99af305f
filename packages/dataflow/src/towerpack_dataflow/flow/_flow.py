"""`DataFlow`: the base class of every flow."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from .. import _argument_checks as arguments
from .._errors import FlowDefinitionError, NotAddressableError, UnknownLengthError
from . import _flow_state
from ._columns import Columns
from ._epoch import Epoch, draw_seed
from ._find_flows import find_flows, kept_attributes, set_attributes
from ._position import Position
from ._root_pass import counted
from ._subclassing import inherited_pass, wrap_overrides
from ._tree_facts import length_fact
from ._tree_text import kept_arguments, tree_text
from ._user_code import innermost_pass
from .provenance import TracedFlow

__all__ = ["DataFlow"]

_log = logging.getLogger("towerpack_dataflow")


class DataFlow(TracedFlow):
    """Yields datapoints, pass after pass; abstract.

    A datapoint is a list, tuple or dict of components. Iterating a flow once is a *pass*, or epoch, and a
    pass is a pure function of the seed, the epoch's number and the index it starts at:

    * every `iter(flow)` starts the next epoch at its beginning, however far the one before was read;
    * after `load_state_dict()` it starts exactly there;
    * two flows built alike with the same seed yield the same datapoints.

    A flow that can make datapoint *i* of epoch *e* directly is *addressable*: it resumes anywhere at once,
    and several iterators over it may run at the same time (`state_dict()` follows the youngest). Any other is
    a *stream*: it resumes by repeating the epoch and dropping the datapoints already seen.

    To write a flow, override one of:

    * `__iter__`, as a generator, for a stream; `__len__` too if the length is known. Keep a flow that it
      iterates over in an attribute, or in a list, tuple, dict or dataclass there, so that seeds, epochs and
      states reach it. A flow from elsewhere starts over in each pass, with random numbers of that pass;
    * `__len__` and `datapoint(epoch, index)`, for an addressable flow.

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
    _transparent = False  # True: the child takes this flow's place, so its random numbers stay the same
    _running: Epoch | None = None
    _holds: tuple[str, ...] | None = None  # the attributes that are flows; None: unknown. Not inherited.
    _copied = False  # whether workers have copies of the flows below
    _argument_names: Mapping[str, str] = MappingProxyType({})  # the attributes that hold them, for repr()
    _steady = False  # True: this class itself never writes to datapoints it has yielded. Not inherited.
    _passes_on = False  # True: datapoints pass through unchanged, arrays included

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Makes a subclass's own `__iter__` or `datapoint` part of the protocol."""
        super().__init_subclass__(**kwargs)
        cls._holds, cls._steady = vars(cls).get("_holds"), vars(cls).get("_steady", False)
        wrap_overrides(cls)

    def __iter__(self) -> Iterator[Any]:
        """Starts the next pass, or the rest of the pass of a loaded state."""
        if type(self).__iter__ is not DataFlow.__iter__:
            return inherited_pass(self)  # super().__iter__() in a subclass's own __iter__
        return self._begin()

    def __len__(self) -> int:
        """Returns the exact number of datapoints in a pass.

        Raises:
            UnknownLengthError: the length is unknown; it is a `TypeError`.
        """
        raise UnknownLengthError(
            f"{self._name()} does not know its length; iterate over it, or fix the length of a pass "
            "with FixedSizeData(flow, size)"
        )

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
        below = self._children() if type(self).__iter__ is DataFlow.__iter__ else ()
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
        if not self._passes_on:
            return None
        sizes = {child.fixed_batch_size for child in self._children()}
        return sizes.pop() if len(sizes) == 1 else None

    def datapoint(self, epoch: int, index: int) -> Any:
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
        index = arguments.position("index", index)
        if not self.addressable:
            raise NotAddressableError(
                f"{self._name()} is a stream: it has no datapoint({epoch}, {index}); iterate over it"
            )
        if not 0 <= index < len(self):
            raise IndexError(f"datapoint {index} of {self._name()}: a pass has {len(self)} datapoints")
        datapoint = self._datapoint(self._rooted(epoch), index)
        if not self.addressable:
            raise NotAddressableError(
                f"{self._name()} turned out to drop datapoints, so that index {index} has no fixed meaning; "
                "say so with MapData(..., drops=True) and iterate"
            )
        return datapoint

    def reset_state(self) -> None:
        """Prepares for iteration in this process; an override opens files or connections here.

        The first iteration calls it, unless it was called before. It may be called any number of times and
        never moves the position. An override calls `super().reset_state()` for the flows below.
        """
        for child in self._children():
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
        `"version"` is the number of its format, and `"flow"` describes the flow that it belongs to.

        A live flow has no position. Its state holds those of live flows below that define `state_dict()`.
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

    def lend_read_only(self) -> None:
        """Promises that the consumer writes to no array of this flow, which may then lend its memory.

        Input sources call this. Flows with workers then yield read-only views of shared memory, which enter a
        graph without a copy and stay valid while a view exists. Flows that only count, repeat or observe
        datapoints pass on the promise. A map does not: its function may write; put it below the workers.
        """
        if self._passes_on:
            for child in self._children():
                child.lend_read_only()

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
        """Returns the layout of batches if the flow can `_gather`; such a flow is addressable or endless."""
        return None

    def _gather(self, epoch: Epoch, wanted: range, out: Sequence[np.ndarray]) -> None:
        """Writes the datapoints numbered `wanted` of a pass into the rows of `out`, one array per component.

        The rows equal a batch of the datapoints bit for bit. `wanted` is a non-empty range within the pass.
        """
        raise FlowDefinitionError(f"{type(self).__name__} has _columns() and no _gather()")

    def _children(self) -> tuple[DataFlow, ...]:
        """Returns the flows directly below: the result of `find_flows`."""
        if self._holds is not None:  # each state_dict() calls this
            return tuple([getattr(self, name) for name in self._holds])
        return tuple(find_flows(self, DataFlow))

    def _below(self, epoch: Epoch, place: int = 0, number: int | None = None) -> Epoch:
        """Returns `epoch` for child `place`."""
        child = self._children()[place]
        return epoch.below(None if self._transparent else place, number, child._seed)

    def _enter(self, epoch: Epoch) -> None:
        """Prepares for a pass through a subclass's own `__iter__`."""
        self._running = epoch

    def _load_mark(self, numbers: Iterable[int]) -> None:
        """Restores this flow's mark from a loaded state; most flows ignore it."""

    def _rewind(self) -> None:
        """Discards everything that earlier passes left in this flow, except the position."""

    def identity(self) -> dict[str, bool | int | str]:
        """Returns the settings that states of this flow belong to, by name.

        A flow with other settings refuses such a state. By default, these are the numbers and truth values
        among the constructor's arguments that an attribute of the same name holds, with or without a leading
        underscore. Override the method to add a setting that changes the datapoints, or to leave one out.

        Returns:
            Numbers, truth values and strings; a float as its `repr`.
        """
        if type(self).__module__.startswith("towerpack_"):
            return {}  # `_facts` has those of the flows in the wheels
        kept = ((name, value) for name, value, _ in kept_arguments(self))
        return {
            name: repr(float(value)) if isinstance(value, float) else value
            for name, value in kept
            if isinstance(value, (bool, int, float))
        }

    def _facts(self) -> dict[str, Any]:
        """Returns the properties that a state depends on: numbers and words, by name."""
        return {} if self._children() else length_fact(self)

    def _keeps_own_state(self) -> bool:
        return type(self).state_dict is not DataFlow.state_dict

    def _on_first_host(self) -> DataFlow:
        """Returns this flow for the first host, which has the longest shards."""
        return self

    def _name(self) -> str:
        """Returns the name of this flow for messages."""
        return type(self).__name__

    def _begin(self) -> Iterator[Any]:
        """Starts the next pass with this flow as the root."""
        if not self._ready:
            _flow_state.walk(self)  # refuses a tree with a circle
            self.reset_state()
            self._ready = True
        inner = innermost_pass()
        if inner is not None and not inner.places(self):
            return counted(self, Position(inner.begin(self)))
        current = self._current()
        # A seed set in the middle of a pass applies from the next one.
        self._position = current.next_pass(self._seed)
        self._position.started = True
        return counted(self, self._position)

    def _current(self) -> Position:
        """Returns the position of the youngest iterator, or the initial position."""
        if self._position is None:
            self._position = Position(self._rooted(0))
        return self._position

    def _rooted(self, epoch: int) -> Epoch:
        """Returns `epoch` with this flow as the root of its tree; draws a missing seed.

        Inside another flow's pass this flow counts as one below it, and the seed of the other flow applies.
        """
        if isinstance(epoch, Epoch):
            return epoch
        epoch = arguments.count("epoch", epoch, least=0, most=None)
        inner = innermost_pass()
        if inner is not None:
            return inner.numbered(self, epoch)
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
