"""`NestedBatchData`: batches of datapoints of any nesting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, final

import numpy as np

from .._errors import BatchError
from ..batch import BatchData, Collator
from ..flow._epoch import Epoch
from ..flow._user_code import record_origin
from ._nested import joined, leaves

__all__ = ["NestedBatchData"]


@final
class NestedBatchData(BatchData):
    """Stacks the leaves of nested datapoints; `BatchData` stacks the components of flat ones.

    A datapoint may also be a single array or number. Python's integers become int64, as in PyTorch.
    """

    def _collated(self, epoch: Epoch, start: int) -> Iterator[Any]:
        first = self._first(epoch, start)
        collator = Collator(self._batch_size, False, self._own_memory(), first)
        structure: Any = None
        try:
            for datapoint in self.ds._datapoints(self._below(epoch), first):
                found: list[tuple[Any, Any]] = []
                own = leaves(datapoint, found)
                del datapoint
                if not collator.count:
                    structure = own
                elif own != structure:
                    raise BatchError(
                        f"cannot batch: datapoint {first + collator.count} of the pass has the structure "
                        f"{_outline(own)}; the batch began with {_outline(structure)}. Pass collate="
                    )
                collator.add({".".join(map(str, path)): _wide(leaf) for path, leaf in found})
                del found
                if collator.full:
                    first += collator.count
                    yield self._finished(joined(structure, iter(collator.take().values())))
            if self._remainder and collator.count:
                yield self._finished(joined(structure, iter(collator.take().values())))
        except Exception as error:
            record_origin(error, self)
            raise

    def _finished(self, batch: Any) -> Any:
        return batch


def _wide(leaf: Any) -> Any:
    return np.int64(leaf) if type(leaf) is int else leaf


def _outline(structure: Any) -> str:
    """Returns the containers of a structure, for messages."""
    if structure is None:
        return "value"
    kind, keys, parts = structure
    names = [f"{key}: " for key in keys] if keys else [""] * len(parts)
    return f"{kind.__name__}({', '.join(name + _outline(part) for name, part in zip(names, parts))})"
