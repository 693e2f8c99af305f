"""Reusable slots of shared memory, written by one process and read by another."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, NamedTuple, final

import numpy as np

from ...batch._buffer_pool import BatchAllocator, Rows
from ...flow._columns import Field
from ...storage import aligned_size, anonymous_file, mapped
from ._large_copies import CopyThread

__all__ = ["BorrowedSlots", "Slot", "SlotBlock", "SlotLease", "SlotPool", "SlotReusePolicy"]

_SMALLEST = 2**16  # bytes of a slot
_BLOCK = 2**20  # bytes of a block of small slots
_IDLE = 64  # large messages during which a slot was not needed: the memory is returned to the system


@final
class Slot:
    """One piece of shared memory.

    Attributes:
        number: its number, shared by the two processes.
        size: size in bytes. Untouched pages take no memory, so sizes may be generous.
        memory: the whole slot, as a flat array.
        address: its start address in this process.
        freed: number of large messages of its pool before it was last free.
    """

    def __init__(self, number: int, memory: np.ndarray) -> None:
        """Stores the number and the memory."""
        self.number = number
        self.size = memory.size
        self.memory = memory
        self.address: int = memory.__array_interface__["data"][0]
        self.freed = 0


@final
class SlotBlock(NamedTuple):
    """Slots of one size allocated together: a mapping costs a descriptor, and small slots are numerous.

    Attributes:
        first: number of the first slot.
        size: bytes of each slot.
        length: number of slots.
    """

    first: int
    size: int
    length: int

    def slots(self, descriptor: int) -> list[Slot]:
        """Maps the slots into this process."""
        memory = mapped(descriptor, self.size * self.length)
        begins = range(0, memory.size, self.size)
        return [Slot(number, memory[at : at + self.size]) for number, at in enumerate(begins, self.first)]


@final
class SlotPool(BatchAllocator):
    """The slots that this process fills for its peer.

    A slot is free, open (being filled), or out. The peer returns it when the last view there is deleted;
    until then it is never written. Sizes are powers of two, so that a slot fits many messages.

    Args:
        copies: the thread for large copies; `None` for none.
        keep: bytes of free slots to keep for later; further slots are unmapped on both sides.

    Attributes:
        trusts_caches: whether a slot used twice in a row is written row by row the second time: it may still
            be in a cache.
        bypasses_caches: whether the rows of a large batch are collected in pieces that bypass the caches.
            That is a second copy, which pays if the datapoints are made as fast as memory is written.
        unannounced: new blocks not yet sent to the peer, with their descriptors.
        retired: numbers of discarded slots not yet announced to the peer.
    """

    def __init__(self, copies: CopyThread | None = None, keep: int = 2**28) -> None:
        """Starts without memory."""
        self._copies = copies
        self._keep = keep
        self._free: list[Slot] = []
        self._out: dict[int, Slot] = {}
        self._open: list[Slot] = []
        self._made = 0
        self._turns = 0
        self._newest: Slot | None = None
        self._again = False
        self.trusts_caches = False
        self.bypasses_caches = True
        self.unannounced: list[tuple[SlotBlock, int]] = []
        self.retired: list[int] = []

    def take(self, size: int) -> Slot:
        """Returns a slot of at least `size` bytes, to fill and send at once: it counts as out."""
        if size >= _BLOCK:
            self._turns += 1
            self._retire_idle()
        slot = self._fitting(max(1 << (size - 1).bit_length(), _SMALLEST))
        self._out[slot.number] = slot
        self._again = slot is self._newest
        self._newest = slot
        return slot

    @property
    def newest(self) -> int:
        """Bytes of the most recent slot, which is still in the caches."""
        return 0 if self._newest is None else self._newest.size

    @property
    def lent(self) -> int:
        """Number of slots that are out."""
        return len(self._out)

    def take_back(self, numbers: Sequence[int]) -> None:
        """Marks slots as free: the peer has finished with them."""
        for number in numbers:
            slot = self._out.pop(number)
            slot.freed = self._turns
            self._free.append(slot)

    def allocate(self, fields: Sequence[Field]) -> Sequence[np.ndarray]:
        """Returns buffers of one batch inside a slot, open until it is sent or `settle()` is called.

        A batch built there needs no copy to reach the peer.
        """
        sizes = [aligned_size(_bytes_of(field)) for field in fields]
        if sum(sizes) < _SMALLEST or any(dtype.hasobject for _, dtype in fields):
            return super().allocate(fields)
        slot = self.take(sum(sizes))
        self._open.append(slot)
        begins = [sum(sizes[:place]) for place in range(len(sizes))]
        return [
            np.ndarray(shape, dtype, slot.memory.data, begin) for (shape, dtype), begin in zip(fields, begins)
        ]

    def rows(self, buffer: np.ndarray) -> tuple[Rows, Callable[[], object]]:
        """Collects the rows of a large batch, which another thread copies, if that pays."""
        warm = self.trusts_caches and self._again
        if self._copies is None or warm or not self.bypasses_caches:
            return super().rows(buffer)
        return self._copies.rows(buffer)

    def copy(self, source: np.ndarray, target: np.ndarray) -> None:
        """Copies existing bytes into a part of a slot."""
        if self._copies is None:
            target[:] = source
        else:
            self._copies.copy(source, target)

    def locate(self, raw: memoryview) -> tuple[int, int] | None:
        """Returns the open slot and the offset of `raw`; `None` if it is outside all open slots."""
        if not self._open or not raw.nbytes:
            return None
        address = np.frombuffer(raw, np.uint8).__array_interface__["data"][0]
        for slot in self._open:
            if slot.address <= address < slot.address + slot.size:
                return slot.number, address - slot.address
        return None

    def settle(self, sent: set[int]) -> None:
        """Closes all open slots; unsent slots are free again."""
        if self._copies is not None:
            self._copies.wait()  # for those of an unfinished batch
        for slot in self._open:
            if slot.number not in sent:
                self.take_back([slot.number])
        self._open = []

    def _fitting(self, size: int) -> Slot:
        for place in reversed(range(len(self._free))):  # the most recently freed one is the warmest
            if self._free[place].size == size:
                return self._free.pop(place)
        self._trim()
        block = SlotBlock(self._made, size, max(_BLOCK // size, 1))
        descriptor = anonymous_file(size * block.length)
        try:
            slots = block.slots(descriptor)
        except OSError:
            os.close(descriptor)
            raise
        self.unannounced.append((block, descriptor))
        self._made += block.length
        self._free.extend(slots[1:])
        return slots[0]

    def _trim(self) -> None:
        """Retires large slots made for messages of another size."""
        large = [slot for slot in self._free if slot.size >= _BLOCK]
        while sum(slot.size for slot in large) > self._keep:
            self._retire(large.pop(0))

    def _retire_idle(self) -> None:
        """Retires the slots that only an unusual state of the consumer needed, such as a pause."""
        for slot in list(self._free):
            if slot.size >= _BLOCK and self._turns - slot.freed > _IDLE:
                self._retire(slot)

    def _retire(self, slot: Slot) -> None:
        self._free.remove(slot)
        self.retired.append(slot.number)


@final
class SlotLease:
    """The base of all views of one received message; returns the slot when the last view is deleted.

    NumPy replaces the base of a view of a view by the innermost object, as long as that is a plain array. A
    lease is not an array, so every slice, reshape and transpose keeps it alive, in all consumers.

    Attributes:
        towerpack_lease: tells code that uses memory without a copy that the memory is not overwritten during
            the lifetime of this object.
        slot: the slot.
        lent: bytes charged to the consumer.
        read_only: whether views are read-only; set before the first view is created.
    """

    towerpack_lease = True

    def __init__(self, slot: Slot, returned: deque[tuple[int, int]]) -> None:
        """Takes the slot, with nothing lent to the consumer."""
        self.slot = slot
        self.lent = 0
        self.read_only = False
        self._returned = returned

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """The whole slot, in the form that NumPy reads."""
        data = (self.slot.address, self.read_only)
        return {"shape": (self.slot.size,), "typestr": "|u1", "data": data, "version": 3}

    def __del__(self) -> None:
        # Runs in any thread, at any line: appending to a deque is all that is safe here.
        self._returned.append((self.slot.number, self.lent))


@final
class BorrowedSlots:
    """The peer's slots, on the reading side, which several threads may use.

    Args:
        limit: bytes that the consumer may hold before messages are copied out of their slots.
    """

    _FREE_OF_CHARGE = 4  # messages of any size that a consumer may hold
    _IN_USE = 2  # messages that a consumer holds temporarily: the last one, and the one being opened
    _QUEUE = 4  # multiples of the limit: a consumer of read-only views has a queue, and empties it

    def __init__(self, limit: int) -> None:
        """Starts without slots."""
        self._slots: dict[int, Slot] = {}
        self._returned: deque[tuple[int, int]] = deque()
        self._home: list[int] = []
        self._limit = limit
        self._lent = 0
        self._messages = 0
        self._leased = self._ended = 0  # two numbers, because they change in different threads
        self._lock = Lock()  # a lease may end while it is held: that only appends to a deque

    def adopt(self, block: SlotBlock, descriptor: int) -> None:
        """Maps new slots of the peer, and closes the descriptor."""
        try:
            self._slots.update({slot.number: slot for slot in block.slots(descriptor)})
        finally:
            os.close(descriptor)

    def drop(self, numbers: Sequence[int]) -> None:
        """Drops slots that the peer no longer uses."""
        for number in numbers:
            del self._slots[number]

    def lease(self, number: int) -> SlotLease:
        """Returns a lease; slot `number` is not returned during its lifetime."""
        self._leased += 1
        return SlotLease(self._slots[number], self._returned)

    def lend(self, lease: SlotLease, size: int) -> bool:
        """Tells whether the consumer may have views of `size` bytes; if not, it should get a copy."""
        with self._lock:
            self._settle()
            limit = self._limit * (self._QUEUE if lease.read_only else 1)
            if self._messages >= self._FREE_OF_CHARGE and self._lent + size > limit:
                return False
            lease.lent = max(size, 1)
            self._lent += lease.lent
            self._messages += 1
            return True

    @property
    def kept(self) -> bool:
        """Whether the consumer keeps views of more messages than it needs temporarily."""
        with self._lock:
            self._settle()
            return self._messages >= self._IN_USE

    @property
    def in_use(self) -> int:
        """Number of slots with unopened messages, or with views that were alive at the last look."""
        return self._leased - self._ended

    @property
    def owed(self) -> int:
        """Bytes of the slots that can be returned."""
        with self._lock:
            self._settle()
            return sum(self._slots[number].size for number in self._home)

    def returned(self) -> list[int]:
        """Returns the numbers of slots with no live views since the last call."""
        with self._lock:
            self._settle()
            numbers, self._home = self._home, []
            return numbers

    def _settle(self) -> None:
        """Accounts for returned slots, under the lock; leases may end meanwhile, and append to the deque."""
        while self._returned:
            number, lent = self._returned.popleft()
            self._lent -= lent
            self._messages -= lent > 0
            self._ended += 1
            self._home.append(number)


def _bytes_of(field: Field) -> int:
    shape, dtype = field
    size = dtype.itemsize
    for length in shape:
        size *= length
    return size


_LARGE = 2**22  # bytes; several smaller blocks fit into a current cache
_FAST = 1e9  # bytes per second; slower datapoints do not wait for memory
_MEMORY_SPEED = 1.5e9  # bytes per second, with a slot up to twice as large as its message
_RECENT = 5  # number of recent measurements used
_FEW = 16  # first turns, mostly with untouched memory
_TRIAL = 96  # turns that a cache may need to hold memory written repeatedly
_SOONEST, _LATEST = 512, 4096  # turns from one trial to the next


@final
class SlotReusePolicy:
    """Chooses between waiting for the most recent slot and using another free one.

    Data produced at memory speed are written up to twice as fast into memory that was written before, as long
    as it is still in a cache. With a quick consumer, the slot with that memory returns in a fraction of that
    time. Caches and consumers are unknown in advance, so waiting is tried, continued while it is faster, and
    tried again after a while; more and more rarely if it never is. If waiting was faster and no longer is,
    another process may have used the cache temporarily, so it gets as many turns to recover.
    """

    def __init__(self) -> None:
        """Starts without measurements."""
        self._seconds: dict[bool, deque[float]] = {way: deque(maxlen=_RECENT) for way in (False, True)}
        self._waits = False
        self._proved = False  # waiting was faster in the last comparison
        self._turns = 0  # of waiting, in a row
        self._left = _FEW  # turns until waiting is tried, or compared again
        self._pause = _SOONEST // 2

    def patience(self, size: int) -> float:
        """Returns the seconds to wait at most for a slot of `size` bytes; 0 to take another one."""
        plain = self._typical(False)
        return plain / 2 if self._waits and size >= max(_LARGE, _FAST * plain) else 0.0

    def at_memory_speed(self, size: int) -> bool:
        """Tells whether messages for a slot of `size` bytes are made about as fast as memory is written."""
        plain = self._typical(False)
        return size >= _MEMORY_SPEED * plain > 0.0

    def learn(self, waited: bool, seconds: float) -> None:
        """Records the time of a turn in `seconds`, with or without waiting."""
        self._seconds[waited].append(seconds)
        self._left -= 1
        self._turns += waited
        if self._left > 0:
            return
        if not self._waits:
            self._waits, self._turns = True, 0
            self._left = _TRIAL
        elif 0.0 < self._typical(True) <= self._typical(False):
            self._proved = True
        elif self._proved:
            self._proved = False
            self._left = _TRIAL
        else:
            self._give_up()

    def interrupt(self) -> None:
        """Records that the consumer is behind: nothing was measured, and caches lose their content."""
        if self._waits:
            self._left = _TRIAL

    def _give_up(self) -> None:
        self._waits = False
        self._seconds[True].clear()
        lasted = self._turns > _SOONEST
        self._left = self._pause = _SOONEST if lasted else min(2 * self._pause, _LATEST)

    def _typical(self, way: bool) -> float:
        """Returns the median, which ignores a single slow turn; 0 without measurements."""
        seconds = sorted(self._seconds[way])
        return seconds[len(seconds) // 2] if seconds else 0.0
