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
    * two flows built alike and given the same seed yield the same datapoints.

    A flow that can make datapoint *i* of epoch *e* by itself is *addressable*: it resumes anywhere at once,
    and several iterators over it may run at the same time (`state_dict()` follows the youngest). Any other is
    a *stream*: it resumes by making the epoch again and dropping what was seen.

    To write a flow, override one of

    * `__iter__`, as a generator, for a stream; `__len__` too if the length is known. A flow that it iterates
      over is an attribute of it, or lies in a list, tuple, dict or dataclass that is one, so that seeds,
      epochs and states reach it. A flow from elsewhere starts over in each pass, with random numbers that
      belong to the pass;
    * `__len__` and `datapoint(epoch, index)`, for an addressable flow.

    What a *live* flow has given cannot be had again: a queue that others fill, a simulator. Such a stream
    says `live = True`. It has no position, so nothing is skipped or made again when a run goes on.

    Neither has to call `super().__init__()`. Lists and dicts are copied (the container, not the components)
    when they leave such a flow, so that nothing downstream can change what it holds.

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
    _seed_drawn = False  # whether nobody has given it
    _position: Position | None = None
    _ready = False
    _transparent = False  # True: the child stands in this flow's own place, so its randomness stays the same
    _running: Epoch | None = None
    _holds: tuple[str, ...] | None = None  # the attributes that are flows; None: any may be. Not inherited.
    _copied = False  # whether workers have copies of the flows below
    _argument_names: Mapping[str, str] = MappingProxyType({})  # the attributes that hold them, for repr()
    _steady = False  # True: this class itself never writes to what it has handed out. Not inherited.
    _passes_on = False  # True: datapoints leave as they came from below, arrays and all

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Makes a subclass's own `__iter__` or `datapoint` part of the protocol."""
        super().__init_subclass__(**kwargs)
        cls._holds, cls._steady = vars(cls).get("_holds"), vars(cls).get("_steady", False)
        wrap_overrides(cls)

    def __iter__(self) -> Iterator[Any]:
        """Starts the next pass, or the rest of the one a loaded state was taken in."""
        if type(self).__iter__ is not DataFlow.__iter__:
            return inherited_pass(self)  # super().__iter__() in a subclass's own __iter__
        return self._begin()

    def __len__(self) -> int:
        """Returns the exact number of datapoints in a pass.

        Raises:
            UnknownLengthError: the length is not known; it is a `TypeError`.
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
        """Whether what the flow has given cannot be had again; so it is over a flow that is live."""
        below = (flow for _, flow in _flow_state.walk(self)[1:])
        return any(type(flow).live is not DataFlow.live and flow.live for flow in below)

    @property
    def endless(self) -> bool:
        """Whether no pass ends, as of `RepeatedData(flow, -1)`; a flow of one's own sets `endless = True`."""
        below = self._children() if type(self).__iter__ is DataFlow.__iter__ else ()
        return bool(below) and all(flow.endless for flow in below)

    @property
    def sharded(self) -> bool:
        """Whether the flow gives one host's share of an order, as `ShardData` does; all hosts seed it alike.

        A flow of one's own that divides an order says it by the class attribute `sharded = True`.
        """
        below = (flow for _, flow in _flow_state.walk(self)[1:])
        return any(type(flow).sharded is not DataFlow.sharded and flow.sharded for flow in below)

    @property
    def fixed_batch_size(self) -> int | None:
        """Length of the first axis of every component of every datapoint; None if it may differ.

        `BatchData` without a remainder has one, and flows that pass its batches on; input sources rely on it.
        """
        if not self._passes_on:
            return None
        sizes = {child.fixed_batch_size for child in self._children()}
        return sizes.pop() if len(sizes) == 1 else None

    def datapoint(self, epoch: int, index: int) -> Any:
        """Makes datapoint `index` of pass `epoch`, wherever the iterators are.

        Args:
            epoch: number of the pass, from 0. An override of this method receives it as an `Epoch`, whose
                `rng(index)` gives the random numbers of this datapoint.
            index: which datapoint, from 0 to `len(self) - 1`.

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

        The first iteration calls it, if it was not called before. It may be called any number of times and
        never moves the position. An override calls `super().reset_state()` for the flows below.
        """
        for child in self._children():
            child.reset_state()
        self._ready = True

    def seed(self, seed: int) -> None:
        """Sets the seed of this flow and of all below it, from the next pass on.

        A flow without one draws one when it is first iterated, logs it, and keeps it in its state. A seed
        given to a flow further down counts if this is not called on one above it afterwards.

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
        its `"version"` is the number of its format, and its `"flow"` says what it belongs to.

        A live flow has no position. Its state holds what live flows below return from a `state_dict()` of
        their own, and is empty if there are none.
        """
        return _flow_state.dump(self)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Lets the next `iter()` start where `state` was taken, with the seeds of that time.

        So a state taken before anything was read takes a flow back to its beginning.

        Args:
            state: from `state_dict()` of a flow built alike, before or after `reset_state()`.

        Raises:
            StateError: `state` is something else, has a format that this release does not read, or is of a
                flow with other kinds, lengths, batches or orders, which `StateError.differences` then names.
                Nothing is changed.
        """
        if self.live:
            _flow_state.load_live(self, state)
        else:
            self._position = _flow_state.load(self, state)

    def lend_read_only(self) -> None:
        """Promises that the consumer writes to no array of this flow, so that the flow may lend its memory.

        Input sources call this. Flows with worker processes then give read-only views of shared memory, which
        go into a graph without a copy and stay as they are while a view of them exists. Flows that only
        count, repeat or watch datapoints hand the promise on to the flow below. A map does not, since its
        function may write to its argument; put the map below the workers.
        """
        if self._passes_on:
            for child in self._children():
                child.lend_read_only()

    def __repr__(self) -> str:
        """Shows the tree below, with arguments that matter, and data by their size."""
        return tree_text(self, DataFlow)

    # The protocol between flows, for operators and the runtime.

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]:
        """Yields the datapoints of a pass from number `start` on, if there are any; moves no position."""
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
        """Writes the datapoints numbered `wanted` of a pass into the rows of `out`, an array a component.

        The rows are afterwards bit by bit those of a batch collated from the datapoints. `wanted` is not
        empty, goes up, and ends within the pass.
        """
        raise FlowDefinitionError(f"{type(self).__name__} has _columns() and no _gather()")

    def _children(self) -> tuple[DataFlow, ...]:
        """Returns the flows right below: those that `find_flows` finds."""
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
        """Takes over what a loaded state's mark says about this flow; most flows learn nothing from it."""

    def _rewind(self) -> None:
        """Forgets what earlier passes have left in this flow, apart from the position."""

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
        """Returns what must be the same for a state to mean the same: numbers and words, by name."""
        return {} if self._children() else length_fact(self)

    def _keeps_own_state(self) -> bool:
        return type(self).state_dict is not DataFlow.state_dict

    def _on_first_host(self) -> DataFlow:
        """Returns this flow as the first host has it, whose shards are never shorter than those of others."""
        return self

    def _name(self) -> str:
        """Returns the name of this flow in messages."""
        return type(self).__name__

    def _begin(self) -> Iterator[Any]:
        """Starts the next pass with this flow as the root."""
        if not self._ready:
            _flow_state.walk(self)  # a tree that has no end is refused
            self.reset_state()
            self._ready = True
        inner = innermost_pass()
        if inner is not None and not inner.places(self):
            return counted(self, Position(inner.begin(self)))
        current = self._current()
        # A seed set in the middle of a pass counts from the next one on.
        self._position = current.next_pass(self._seed)
        self._position.started = True
        return counted(self, self._position)

    def _current(self) -> Position:
        """Returns the position of the youngest iterator, or the first position of all."""
        if self._position is None:
            self._position = Position(self._rooted(0))
        return self._position

    def _rooted(self, epoch: int) -> Epoch:
        """Returns `epoch` with this flow as the root of its tree; draws a seed if there is none.

        Inside of another flow's pass it is a flow below that one, and the other one's seed counts.
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
        """A copy continues at this flow's position, and is reset again in its process."""
        return kept_attributes(self, ("_ready", "_running"))

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Takes over the attributes of another flow."""
        set_attributes(self, state)
