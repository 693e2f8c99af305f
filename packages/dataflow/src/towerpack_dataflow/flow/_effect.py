"""`Effect`: the declaration of a flow's effect on the datapoints that it yields."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Effect"]


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
