"""`CacheData`: makes each datapoint once and yields it again in later passes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, final

from ... import _argument_checks as arguments
from ..._errors import ArgumentError, ArgumentTypeError, CacheError, NotAddressableError
from ...flow._epoch import Epoch
from ...flow._flow_state import Tree
from ...flow._node import DROPPED, Effect
from ...flow._trace import Origin
from ...flow._tree_fingerprint import known_length
from ...sources._permutation import Permutation
from .._proxy_flow import ProxyDataFlow
from ._memory_cache import MISSING, CacheStorage, MemoryCache

__all__ = ["CacheData"]

_CHUNK = 256


@final
class CacheData(ProxyDataFlow):
    """Yields the datapoints of one pass of the flow below in all passes, and makes each of them once.

    These are the datapoints of pass 0 of `ds` with seed 0, or with the seed given to `ds.seed()`: they depend
    on no other seed, so a cache on a disk serves any run. Datapoints are stored by index. After a pass that
    ended early or with an error, later passes use and complete the stored part; no pass is shorter for it.

    Put `CacheData` above workers, not below: each worker would have a separate cache. Operators with a
    different result in each pass, such as augmentation, belong above it, too.

    Args:
        ds: the flow below; it must not be live.
        shuffle: whether each pass except the first has a different order. Over a stream, this requires its
            end, so a resumed run first makes all datapoints.
        storage: a `MemoryCache` or `DiskCache` for this flow alone; unlimited memory by default.

    Raises:
        ArgumentError: `ds` is live, so that passes differ, or is repeated endlessly.
        ArgumentTypeError: `shuffle` is not a boolean, or `storage` is not a storage.
        CacheError: a stream is shuffled, and `storage` has no room for all of it; or a directory holds the
            cache of another flow. Raised while iterating.

    Example:
        >>> from towerpack_dataflow import MapData
        >>> made = []
        >>> flow = CacheData(MapData(range(3), lambda number: made.append(number) or [number]))
        >>> list(flow) == list(flow), made
        (True, [0, 1, 2])
    """

    effect = Effect(steady=True)

    def __init__(self, ds: Any, shuffle: bool = False, storage: CacheStorage | None = None) -> None:
        """Stores the arguments; makes nothing."""
        super().__init__(ds)
        if self.ds.live:
            raise ArgumentError(
                f"{self.ds._name()} is live: its datapoints cannot be read again, so there is no pass to "
                "cache"
            )
        if self.ds.endless:
            raise ArgumentError(
                f"{self.ds._name()} has no end, but the cache holds a whole pass; put CacheData below the "
                "repetition, or FixedSizeData(flow, size) between"
            )
        self._shuffle = arguments.flag("shuffle", shuffle)
        self._storage: CacheStorage = MemoryCache() if storage is None else storage
        if not all(hasattr(self._storage, name) for name in ("open", "length", "get", "put", "finish")):
            raise ArgumentTypeError(f"storage is a MemoryCache or a DiskCache; received {storage!r}")
        self._opened: Epoch | None = None
        self._last_order: tuple[Any, Permutation] | None = None

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]:
        below = self._source()
        if not self._is_shuffled(epoch):
            return self._in_order(below, start)
        return self._reordered(epoch, below, start)

    def _datapoint(self, epoch: Epoch, index: int) -> Any:
        below = self._opened
        if below is None or below.seed != self._source_seed():
            below = self._source()
        return self._one(below, self._number_below(epoch, index))

    def origins(self, epoch: Epoch, index: int) -> list[Origin]:
        """Returns the datapoint of the cached pass, made with `ds` as the root of a tree."""
        return [Origin(self.ds, self._number_below(epoch, index), Epoch(0, self._source_seed()))]

    def _number_below(self, epoch: Epoch, index: int) -> int:
        return self._order(epoch, len(self)).at(index) if self._is_shuffled(epoch) else index

    def _is_shuffled(self, epoch: Epoch) -> bool:
        return self._shuffle and (int(epoch), epoch.outer_epoch) != (0, 0)

    def _source(self) -> Epoch:
        """Opens the storage; returns the cached pass of the flow below."""
        seed = self._source_seed()
        self._storage.open({"seed": seed, "flow": Tree.of(self.ds).fingerprint})
        self._opened = Epoch(0, seed)
        return self._opened

    def _source_seed(self) -> int:
        return 0 if self.ds._seed is None else self.ds._seed

    def _in_order(self, below: Epoch, start: int) -> Iterator[Any]:
        storage = self._storage
        length = known_length(self.ds) if self.ds.addressable else storage.length()
        made: Iterator[Any] | None = None
        index = start
        while length is None or index < length:
            datapoint = storage.get(index)
            if datapoint is not MISSING:
                made = None
            else:
                made = made or self._made(below, index)
                datapoint = next(made, MISSING)
                if datapoint is MISSING:
                    break
                storage.put(index, datapoint)
            index += 1
            yield datapoint
            del datapoint  # frees its memory for the next one
        if index > start or not start:
            storage.finish(index)

    def _made(self, below: Epoch, start: int) -> Iterator[Any]:
        """Makes the datapoints of the flow below from an index on."""
        sure = self.ds.addressable
        for datapoint in self.ds._datapoints(below, start):
            if sure and not self.ds.addressable:
                raise self._dropped()
            yield datapoint
        if sure and not self.ds.addressable:
            raise self._dropped()

    def _reordered(self, epoch: Epoch, below: Epoch, start: int) -> Iterator[Any]:
        length = self._whole_length(below)
        order = self._order(epoch, length)
        for low in range(start, length, _CHUNK):
            for index in order.index_range(low, min(low + _CHUNK, length)):
                yield self._one(below, index)
        self._storage.finish(length)

    def _whole_length(self, below: Epoch) -> int:
        """Returns the length of the cached pass; makes all of it if necessary."""
        if self.ds.addressable:
            return len(self.ds)
        if self._storage.length() is None:
            self._fill(below)
        length = self._storage.length()
        assert length is not None
        return length

    def _fill(self, below: Epoch) -> None:
        """Makes the missing datapoints, in order."""
        for _ in self._in_order(below, 0):
            pass

    def _one(self, below: Epoch, index: int) -> Any:
        """Returns one datapoint of the cached pass."""
        datapoint = self._storage.get(index)
        if datapoint is MISSING and not self.ds.addressable:
            self._fill(below)
            datapoint = self._storage.get(index)
        if datapoint is not MISSING:
            return datapoint
        if not self.ds.addressable:
            raise CacheError(
                f"datapoint {index} of {self.ds._name()} is not in {self._storage!r}, and a stream cannot "
                "make it directly; set a larger max_bytes, or shuffle=False"
            )
        datapoint = self.ds._datapoint(below, index)
        if datapoint is DROPPED:
            raise self._dropped()
        self._storage.put(index, datapoint)
        return datapoint

    def _order(self, epoch: Epoch, length: int) -> Permutation:
        """Returns the order of an epoch, cached for the next datapoint."""
        key = (epoch.identity, length)
        last = self._last_order
        if last is None or last[0] != key:
            last = self._last_order = (key, Permutation(length, epoch.rng()))
        return last[1]

    def _dropped(self) -> NotAddressableError:
        return NotAddressableError(
            f"{self.ds._name()} dropped a datapoint without a declaration, so indices in the cache would be "
            "wrong; declare it with MapData(..., drops=True), or filter with FilterData"
        )

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out the open storage and the order; a copy opens and computes them again."""
        return {**super().__getstate__(), "_opened": None, "_last_order": None}
