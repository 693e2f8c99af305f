"""`Node`: a flow's place in a tree, for the modules below `DataFlow`; `Effect`: its effect on datapoints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from ._epoch import Epoch, Position

__all__ = ["DROPPED", "Effect", "Node"]


class Effect(NamedTuple):
    """The effect of a flow on the datapoints that it yields; the default promises nothing.

    Set it as the class attribute `effect`. It holds until a subclass makes datapoints in another way.

    Attributes:
        keeps_place: whether the flow below takes the place of this one in the tree, and so has the same
            random numbers with and without it: an observer, a part of an order, workers.
        passes_on: whether the datapoints below pass through unchanged, with their arrays. A promise of
            read-only use and a fixed batch size then hold below, too.
        steady: whether the class never writes to a datapoint that it has yielded, and calls no function that
            may. Collecting operators then store datapoints without copies.

    Example:
        >>> from towerpack_dataflow import ProxyDataFlow
        >>> class EveryOther(ProxyDataFlow):
        ...     effect = Effect(passes_on=True, steady=True)
        ...     def __len__(self):
        ...         return len(self.ds) // 2
        ...     def datapoint(self, epoch, index):
        ...         return self.ds.datapoint(epoch, 2 * index)
        >>> list(EveryOther(range(6)))
        [0, 2, 4]
    """

    keeps_place: bool = False
    passes_on: bool = False
    steady: bool = False


# Returned by `_datapoint` for a dropped datapoint: `None` is a datapoint like any other.
DROPPED: Final = object()


class Node(Protocol):
    """A flow as a node in a tree of flows; `DataFlow` implements it and documents the members.

    The modules that walk trees, write states and adopt methods stand below `DataFlow`, which uses them. They
    depend on this protocol, so that no import leads back up.
    """

    _seed: int | None
    _seed_drawn: bool
    _position: Position | None
    _ready: bool
    _running: Epoch | None

    @property
    def _copied(self) -> bool: ...

    @property
    def effect(self) -> Effect:
        """The effect on datapoints."""

    @property
    def addressable(self) -> bool:
        """Whether `datapoint()` works."""

    @property
    def live(self) -> bool:
        """Whether datapoints cannot be read again."""

    @property
    def endless(self) -> bool:
        """Whether no pass ends."""

    @property
    def sharded(self) -> bool:
        """Whether the flow yields one host's share of a common order."""

    def __iter__(self) -> Iterator[Any]:
        """Starts the next pass."""

    def __len__(self) -> int:
        """Returns the number of datapoints in a pass."""

    def datapoint(self, epoch: int, index: int) -> Any:
        """Makes one datapoint."""

    def reset_state(self) -> None:
        """Prepares for iteration in this process."""

    def seed(self, seed: int) -> None:
        """Sets the seed of this flow and of all below it."""

    def state_dict(self) -> dict[str, Any]:
        """Returns position and seeds."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues where a state was taken."""

    def _name(self) -> str: ...

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]: ...

    def identity(self) -> Mapping[str, bool | int | str]:
        """Returns the settings that states belong to."""

    def _keeps_own_state(self) -> bool: ...

    def children(self) -> Sequence[Node]:
        """Returns the flows directly below."""

    def _below(self, epoch: Epoch, place: int = 0, number: int | None = None) -> Epoch: ...

    def _rooted(self, epoch: int) -> Epoch: ...

    def _enter(self, epoch: Epoch) -> None: ...

    def _loaded(self, mark: Iterable[int] | None) -> None: ...
