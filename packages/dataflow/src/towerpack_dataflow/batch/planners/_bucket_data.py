"""`BucketData`: batches datapoints with lengths in the same range."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from ... import _argument_checks as arguments
from ..._errors import ArgumentError
from ._plan import Plan
from ._planned_flow import PlannedFlow

__all__ = ["BucketData"]


@final
class BucketData(PlannedFlow):
    """Makes batches of datapoints from one bucket each; their combination differs from epoch to epoch.

    Bucket 0 holds lengths below `boundaries[0]`, bucket *k* those from `boundaries[k - 1]` up to but
    excluding `boundaries[k]`, the last one the rest; as in `tf.data.Dataset.bucket_by_sequence_length`.

    Args:
        ds: an addressable flow that does not shuffle; this flow shuffles.
        lengths: lengths of the datapoints of `ds`, by index.
        boundaries: ascending integers.
        batch_size: datapoints in a batch; or a list of sizes, one more than boundaries.
        shuffle: whether each epoch has different batches in a different order.
        remainder: whether the last, smaller batch of each bucket is yielded.
        multiple_of: the number of batches is a multiple of this; see `BatchByBudget`.
        collate: as in `PlannedFlow`.

    Raises:
        ArgumentError: boundaries do not ascend, or the number of sizes differs from the number of buckets.
        ArgumentTypeError: `lengths` are not integers.
        NotAddressableError: `ds` is a stream.

    Example:
        >>> words = ["a", "bcd", "ef", "ghi", "j"]
        >>> lengths = [len(word) for word in words]
        >>> list(BucketData([[word] for word in words], lengths, [2, 3], 2, shuffle=False))
        [[['a', 'j']], [['ef']], [['bcd', 'ghi']]]
    """

    def __init__(
        self,
        ds: Any,
        lengths: Any,
        boundaries: Sequence[int],
        batch_size: int | Sequence[int],
        *,
        shuffle: bool = True,
        remainder: bool = True,
        multiple_of: int = 1,
        collate: Callable[[list[Any]], Any] | None = None,
    ) -> None:
        """Plans the batches of all epochs."""
        super().__init__(ds, lengths, shuffle, collate)
        self._boundaries = [arguments.count("a boundary", boundary) for boundary in boundaries]
        if sorted(set(self._boundaries)) != self._boundaries:
            raise ArgumentError(f"boundaries ascend; received {list(boundaries)!r}")
        self._sizes = _batch_sizes(batch_size, len(self._boundaries) + 1)
        self._remainder = arguments.flag("remainder", remainder)
        multiple_of = arguments.count("multiple_of", multiple_of)
        self._plan = self._planned().divided(multiple_of)

    def _planned(self) -> Plan:
        buckets = np.searchsorted(self._boundaries, self._lengths, "right")
        counts = np.bincount(buckets, minlength=len(self._sizes)).tolist()
        starts = np.concatenate([[0], np.cumsum(counts)])
        slots, sizes = [], []
        for first, count, size in zip(starts.tolist(), counts, self._sizes):
            whole, rest = divmod(count, size)
            sizes += [size] * whole + [rest] * (self._remainder and rest > 0)
            slots.append(np.arange(first, first + (count if self._remainder else whole * size)))
        offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        starts = starts[:-1][np.array(counts) > 0]
        return Plan(np.argsort(buckets, kind="stable"), starts, np.concatenate(slots), offsets)

    def identity(self) -> dict[str, bool | int | str]:
        """Returns the settings of the plan."""
        return {**super().identity(), "sizes": str(self._sizes), "boundaries": str(self._boundaries)}


def _batch_sizes(batch_size: Any, buckets: int) -> list[int]:
    given = list(batch_size) if isinstance(batch_size, (list, tuple, np.ndarray)) else [batch_size] * buckets
    if len(given) != buckets:
        raise ArgumentError(
            f"batch_size is an integer, or one for each of the {buckets} buckets; received {len(given)}"
        )
    return [arguments.count("batch_size", size) for size in given]
