"""`Collator`: builds batches from datapoints, one datapoint at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, final

from .._errors import BatchError
from ..flow._columns import assembled
from ._buffer_pool import BatchAllocator
from ._component_builders import ArrayBuilder, ComponentBuilder, ListBuilder, builder_for
from ._exact_arrays import UnlikeError, described

__all__ = ["Collator"]


@final
class Collator:
    """Builds successive batches from datapoints as they arrive.

    Each array is copied into the batch's buffer at once and released, so that its memory, still in the
    caches, serves the next one. Collecting the datapoints first and stacking them costs several times more.

    Args:
        size: datapoints in a full batch.
        use_list: whether each component is a list of unstacked values.
        memory: allocates the batches, perhaps in recycled or shared memory; new memory if `None`.
        number: index of the first datapoint in its pass, for error messages.
        make: returns the builder of a component for its key and first value; the usual one by default.

    Attributes:
        count: datapoints in the batch so far.
    """

    def __init__(
        self,
        size: int,
        use_list: bool = False,
        memory: BatchAllocator | None = None,
        number: int = 0,
        make: Callable[[Any, Any], ComponentBuilder] = builder_for,
    ) -> None:
        """Starts with an empty batch."""
        self._size = size
        self._memory = memory or BatchAllocator()
        self._number = number
        self._make = (lambda key, _: ListBuilder(key)) if use_list else make
        self._builders: list[ComponentBuilder] = []
        self._puts: list[tuple[Any, Callable[[int, Any], None]]] = []
        self._kind: type[Any] = list
        self.count = 0

    @property
    def full(self) -> bool:
        """Whether the batch must be removed before the next datapoint."""
        return self.count == self._size

    def add(self, datapoint: Any) -> None:
        """Adds one datapoint to the batch.

        Raises:
            BatchError: the datapoint does not match those before it.
        """
        row = self.count
        if row == 0:
            self._open(datapoint)
        elif type(datapoint) is not self._kind or len(datapoint) != len(self._builders):
            raise self._other_outline(datapoint)
        try:
            for key, put in self._puts:
                put(row, datapoint[key])
        except KeyError:
            raise self._other_outline(datapoint) from None
        except UnlikeError as error:
            raise self._unlike(str(error)) from None
        self.count = row + 1

    def expect(self, number: int) -> None:
        """Sets the index of the next datapoint in its pass, if it does not follow the last one."""
        self._number = number - self.count

    def take(self) -> Any:
        """Returns the batch, in the type of the datapoints; the next batch starts empty."""
        builders = self._builders
        values = [builder.finish(self.count) for builder in builders]
        self._number += self.count
        self._builders, self._puts = [], []
        self.count = 0
        return assembled(self._kind, [builder.key for builder in builders], values)

    def _open(self, datapoint: Any) -> None:
        """Creates builders and their memory for the first datapoint of a batch."""
        if not isinstance(datapoint, (list, tuple, dict)):
            raise self._unlike(
                f"is {_outline(datapoint)}; a datapoint to batch is a list, tuple or dict of components: "
                "wrap it in a MapData, as [it]"
            )
        self._kind = type(datapoint)
        keys: Iterable[Any] = datapoint if isinstance(datapoint, dict) else range(len(datapoint))
        try:
            self._builders = [self._make(key, datapoint[key]) for key in keys]
        except UnlikeError as error:
            raise self._unlike(str(error)) from None
        self._puts = [(builder.key, builder.put) for builder in self._builders]
        self._allocate([builder for builder in self._builders if isinstance(builder, ArrayBuilder)])

    def _allocate(self, builders: list[ArrayBuilder]) -> None:
        fields = [((self._size, *builder.shape), builder.dtype) for builder in builders]
        for builder, buffer in zip(builders, self._memory.allocate(fields)):
            builder.buffer = buffer
            builder.rows, builder.written = self._memory.rows(buffer)

    def _other_outline(self, datapoint: Any) -> BatchError:
        keys = [builder.key for builder in self._builders]
        began = _outline_of(self._kind, keys)
        return self._unlike(f"is {_outline(datapoint)}; the batch began with {began}")

    def _unlike(self, problem: str) -> BatchError:
        return BatchError(f"cannot batch: datapoint {self._number + self.count} of the pass {problem}")


def _outline(datapoint: Any) -> str:
    """Returns the type and the keys of a datapoint, for messages."""
    if isinstance(datapoint, (list, tuple, dict)):
        return _outline_of(type(datapoint), list(datapoint))
    return described(datapoint)


def _outline_of(kind: type, keys: list[Any]) -> str:
    if issubclass(kind, dict):
        return f"a dict with the keys {keys!r}"
    return f"a {kind.__name__} of {len(keys)} components"
