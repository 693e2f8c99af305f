"""The origin of a datapoint: the datapoints below that form it, and the tree of all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol, final

from .._errors import FlowDefinitionError, StateError
from ._epoch import Epoch
from ._node import Node

__all__ = ["Origin", "Origins", "Trace", "TracedNode"]


class TracedNode(Node, Protocol):
    """A flow that reports the origins of its datapoints; `DataFlow` documents the members."""

    def origins(self, epoch: Epoch, index: int) -> Iterable[Origin] | None:
        """Returns the origins of a datapoint."""


@final
class Origin:
    """One of the datapoints that form a datapoint.

    Args:
        flow: a flow directly below the one that reports the origin.
        index: index of the datapoint in its pass.
        epoch: epoch of that pass: an `Epoch` as passed to `datapoint()` of `flow`, its number, or
            `None` for the pass that iterating over the flow above reads.

    Example:
        >>> from towerpack_dataflow import ProxyDataFlow
        >>> class Backwards(ProxyDataFlow):
        ...     def datapoint(self, epoch, index):
        ...         return self.ds.datapoint(epoch, len(self) - 1 - index)
        ...     def origins(self, epoch, index):
        ...         return [Origin(self.ds, len(self) - 1 - index, epoch)]  # as in datapoint()
        >>> [leaf.index for leaf in Backwards(["a", "b", "c"]).trace(0).sources()]
        [2]
    """

    __slots__ = ("epoch", "flow", "index")

    def __init__(self, flow: Any, index: int, epoch: int | None = None) -> None:
        """Stores the arguments."""
        self.flow = flow
        self.index = index
        self.epoch = epoch

    def epoch_below(self, owner: Node, epoch: Epoch) -> Epoch:
        """Returns the epoch of this datapoint as part of a datapoint of `owner` in `epoch`.

        Raises:
            FlowDefinitionError: `flow` is not directly below `owner`.
        """
        if isinstance(self.epoch, Epoch):
            return self.epoch
        for place, child in enumerate(owner.children()):
            if child is self.flow:
                return owner._below(epoch, place, self.epoch)
        raise FlowDefinitionError(
            f"origins() of {owner._name()} names {self.flow!r}, which is not directly below it; name flows "
            "held by its attributes"
        )


@final
class Origins(list[Origin]):
    """The origins of a datapoint, with details for its trace.

    Args:
        members: the origins, in order.
        notes: the details: values for JSON, by name.

    Example:
        >>> from towerpack_dataflow import DataFromList
        >>> numbers = DataFromList([[1], [2], [3]], shuffle=False)
        >>> joined = Origins([Origin(numbers, 0, 0), Origin(numbers, 2, 0)], {"joined by": "sum"})
        >>> [origin.index for origin in joined], joined.notes
        ([0, 2], {'joined by': 'sum'})
    """

    def __init__(self, members: Iterable[Origin] = (), notes: Mapping[str, Any] | None = None) -> None:
        """Stores the arguments."""
        super().__init__(members)
        self.notes = dict(notes or {})


_FIELDS = ("flow", "place", "seed", "epoch", "outer_epoch", "index", "notes", "origins")
_SHOWN = 4  # origins of one datapoint in a text


@final
class Trace:
    """Identifies a datapoint of a flow and the datapoints below that form it.

    A trace is computed from seed, epoch and index, without logs and without making a datapoint.

    Args:
        flow: name of the flow, as in messages.
        place: place of the flow in its tree, as in states: `"0.1"` is the second child of the first child.
        seed: seed in effect there.
        epoch: number of the pass.
        outer_epoch: see `Epoch.outer_epoch`.
        index: index of the datapoint in that pass.
        notes: details added by the flow: the member of its list, the function that it calls, …
        origins: traces of the datapoints that form this one, in order; empty for a source; `None` if a custom
            `datapoint()` makes it and no `origins()` is defined.

    Example:
        >>> from towerpack_dataflow import BatchData, DataFromList
        >>> flow = BatchData(DataFromList([[i] for i in range(9)]), 3)
        >>> flow.seed(7)
        >>> trace = flow.trace(1)
        >>> [leaf.notes["member"] for leaf in trace.sources()], flow.datapoint(0, 1)[0].tolist()
        ([5, 3, 4], [5, 3, 4])
        >>> trace
        BatchData(3): datapoint 1 of epoch 0, seed 7
          DataFromList: datapoint 3 of epoch 0, member 5
          DataFromList: datapoint 4 of epoch 0, member 3
          DataFromList: datapoint 5 of epoch 0, member 4
    """

    __slots__ = _FIELDS

    def __init__(
        self,
        flow: str,
        place: str,
        seed: int,
        epoch: int,
        index: int,
        *,
        outer_epoch: int = 0,
        notes: Mapping[str, Any] | None = None,
        origins: Iterable[Trace] | None = (),
    ) -> None:
        """Stores the arguments."""
        self.flow, self.place, self.seed, self.epoch, self.index = flow, place, seed, epoch, index
        self.outer_epoch = outer_epoch
        self.notes = dict(notes or {})
        self.origins = None if origins is None else tuple(origins)

    @classmethod
    def of(cls, flow: TracedNode, epoch: Epoch, index: int) -> Trace:
        """Traces datapoint `index` of an addressable flow."""
        below = flow.origins(epoch, index)
        return cls(
            flow._name(),
            epoch.key,
            epoch.seed,
            int(epoch),
            int(index),
            outer_epoch=epoch.outer_epoch,
            notes=below.notes if isinstance(below, Origins) else None,
            origins=None
            if below is None
            else [cls.of(origin.flow, origin.epoch_below(flow, epoch), origin.index) for origin in below],
        )

    @property
    def complete(self) -> bool:
        """Whether every branch of the trace reaches a source."""
        return self.origins is not None and all(origin.complete for origin in self.origins)

    def sources(self) -> Iterator[Trace]:
        """Yields the leaves of the tree, in order: the members of the sources."""
        if not self.origins:
            yield self
        for origin in self.origins or ():
            yield from origin.sources()

    def to_dict(self) -> dict[str, Any]:
        """Returns the tree as dicts and lists, ready for JSON."""
        made = {name: getattr(self, name) for name in _FIELDS}
        made["origins"] = None if self.origins is None else [origin.to_dict() for origin in self.origins]
        return made

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Trace:
        """Builds a trace from the result of `to_dict()`.

        Raises:
            StateError: `values` is something else.
        """
        if not isinstance(values, Mapping) or set(values) != set(_FIELDS):
            raise StateError(f"a trace is the dict that Trace.to_dict() returns; received {values!r:.200}")
        below = values["origins"]
        origins = None if below is None else map(cls.from_dict, below)
        return cls(**{**values, "origins": origins})

    def __eq__(self, other: object) -> bool:
        """Compares all fields of the two trees."""
        return isinstance(other, Trace) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        """Returns equal hashes for equal traces."""
        return hash((self.flow, self.place, self.seed, self.outer_epoch, self.epoch, self.index))

    def __repr__(self) -> str:
        """Shows the tree, one line per datapoint; of many siblings, the first and the last."""
        return "\n".join(_lines(self, None, ""))


def _lines(trace: Trace, above: Trace | None, indent: str) -> Iterator[str]:
    yield indent + ", ".join(_parts(trace, above))
    below = trace.origins
    if below is None:
        yield f"{indent}  not known: {trace.flow} has a custom datapoint() and no origins()"
        return
    hidden = len(below) - _SHOWN if len(below) > _SHOWN + 1 else 0
    for number, origin in enumerate(below):
        if not 0 < number - (_SHOWN - 2) <= hidden:
            yield from _lines(origin, trace, f"{indent}  ")
        elif number == _SHOWN - 1:
            yield f"{indent}  … and {hidden} more"


def _parts(trace: Trace, above: Trace | None) -> Iterator[str]:
    yield f"{trace.flow}: datapoint {trace.index} of epoch {trace.epoch}"
    if trace.outer_epoch and (above is None or above.outer_epoch != trace.outer_epoch):
        yield f"restarted in epoch {trace.outer_epoch} above"
    if above is None or above.seed != trace.seed:
        yield f"seed {trace.seed}"
    for name, value in trace.notes.items():
        yield name if value is True else f"{name} {value}"
