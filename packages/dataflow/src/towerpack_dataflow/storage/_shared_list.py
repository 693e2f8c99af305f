"""Long lists in shared memory, read by all workers.

A list of a million (path, label) pairs is 4 million Python objects. Pickling it for each worker takes seconds
and creates a copy in each; inheriting it by fork copies it too, page by page, as reference counts change. So
a flow pickled within `SharedListPickle.packing()` leaves out its long lists: the pickle holds the place of a
list, and the members are in anonymous memory, pickled in small blocks, followed by the offsets of the blocks.
"""

from __future__ import annotations

import functools
import io
import mmap
import os
import pickle
import types
import weakref
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from typing import Any, BinaryIO, NamedTuple, final, overload

from .._errors import PayloadError

__all__ = [
    "PackedList",
    "SharedListPickle",
    "SharedMemoryAddress",
    "dump_by_value",
    "list_to_pickle",
    "value_pickler",
]


def dump_by_value(
    value: Any, buffer_callback: Callable[[pickle.PickleBuffer], Any] | None = None, pickler: Any = None
) -> bytes:
    """Pickles `value`; definitions that another process cannot import, such as those of `__main__`, by value.

    Args:
        value: the object to pickle.
        buffer_callback: receives out-of-band buffers, as in `pickle.dumps`.
        pickler: a pickler class to use instead of `value_pickler()`.
    """
    file = io.BytesIO()
    (pickler or value_pickler())(file, 5, buffer_callback=buffer_callback).dump(value)
    return file.getvalue()


@functools.cache
def value_pickler() -> type[Any]:
    """Returns the class of these picklers; imports cloudpickle at the first call.

    From 3.1.3 on, cloudpickle replaces all file names by one, so that equal functions have equal pickles. A
    traceback from a worker would then show neither the file nor the line of the user's code.
    """
    import cloudpickle

    class ValuePickler(cloudpickle.Pickler):
        """Adds the name of its file to cloudpickle's pickle of code."""

        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, types.CodeType):
                make, arguments = self.dispatch_table[types.CodeType](obj)
                return _code_of_file, (obj.co_filename, make, arguments)
            return super().reducer_override(obj)

    return ValuePickler


def _code_of_file(name: str, make: Callable[..., types.CodeType], arguments: tuple[Any, ...]) -> Any:
    return make(*arguments).replace(co_filename=name)


_LEAST_BYTES = 2**18  # smaller lists go into the pickle itself
_BLOCK_BYTES = 4096
_MOST_PER_BLOCK = 16  # a shuffled read decodes a block for each member, so blocks stay small
_SAMPLE = 16
_SHARED = 4
_FRAME_BYTES = 16  # overhead of a pickle per member

_being_filled: ContextVar[SharedListPickle | None] = ContextVar(
    "towerpack_dataflow_shared_lists", default=None
)


@final
class SharedListPickle:
    """The long lists left out of a pickle for workers, packed once for all of them.

    The runtime pickles a flow inside `packing()`, sends the pickle to any number of workers, and keeps this
    object until the last of them has unpickled it. The pickle identifies a list by the number of this process
    and of a descriptor in it, so workers need nothing else. On systems without `memfd_create` nothing is
    packed, and lists travel inside the pickle.

    Example:
        >>> import cloudpickle
        >>> from towerpack_dataflow import DataFromList
        >>> lists = SharedListPickle()
        >>> with lists.packing():
        ...     pickled = cloudpickle.dumps(DataFromList(list(range(10**6)), shuffle=False))
        >>> len(pickled) < 1000, next(iter(cloudpickle.loads(pickled)))
        (True, 0)
        >>> lists.close()
    """

    def __init__(self, pickler: Callable[..., Any] | None = None) -> None:
        """Creates an empty object; `pickler` makes the pickler for members, `value_pickler()` by default."""
        self._pickler = pickler
        self._places: dict[int, tuple[Sequence[Any], SharedMemoryAddress]] = {}

    @contextmanager
    def packing(self) -> Iterator[None]:
        """Packs the long lists of flows pickled inside the `with` block in this thread."""
        token = _being_filled.set(self)
        try:
            yield
        finally:
            _being_filled.reset(token)

    def pack(self, members: Sequence[Any]) -> Any:
        """Packs members if they are large enough: returns a place that unpickles as the same members.

        Returns:
            `members` itself if it is short, not a list, or cannot be packed on this system.

        Raises:
            Exception: pickling a member raised it; a note names the member.
        """
        if isinstance(members, PackedList):
            return members.place(os.getpid())
        if type(members) not in {list, tuple} or not hasattr(os, "memfd_create"):
            return members
        if id(members) not in self._places:
            per_block = _members_per_block(members)
            if per_block == 0:
                return members
            self._places[id(members)] = (members, _fill(members, per_block, self._pickler))
        return self._places[id(members)][1]

    def close(self) -> None:
        """Releases this process's reference to the memory; workers that have mapped it keep it."""
        while self._places:
            _, (_, place) = self._places.popitem()
            os.close(place.descriptor)

    def __del__(self) -> None:
        """Closes the lists."""
        self.close()


def list_to_pickle(members: Sequence[Any]) -> Any:
    """Returns the object to pickle in place of `members`: packed members inside `packing()`."""
    lists = _being_filled.get()
    return members if lists is None else lists.pack(members)


class SharedMemoryAddress(NamedTuple):
    """The place of packed members: a few integers, which unpickle as a `PackedList`."""

    process: int
    descriptor: int
    inode: int
    length: int
    per_block: int
    offsets: int

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, tuple(self)


@final
class PackedList(Sequence[Any]):
    """Members in shared memory; each member is unpickled when read.

    Args:
        place: place of the members.

    Raises:
        PayloadError: the memory no longer exists.

    Example:
        >>> import pickle
        >>> packed = pickle.loads(pickle.dumps(list_to_pickle(["one", "two", "three"])))
        >>> len(packed), packed[1]
        (3, 'two')
    """

    def __init__(self, place: SharedMemoryAddress) -> None:
        """Maps the memory; reads nothing."""
        self._length = place.length
        self._per_block = place.per_block
        descriptor = _reopened(place)
        weakref.finalize(self, os.close, descriptor)
        self._place = place._replace(descriptor=descriptor)
        memory = memoryview(mmap.mmap(descriptor, 0, prot=mmap.PROT_READ))
        self._memory = memory
        self._offsets = memory[place.offsets :].cast("q")
        self._last: tuple[int, list[Any]] = (-1, [])

    def place(self, process: int) -> SharedMemoryAddress:
        """Returns the place of the members for workers of `process`, which holds this list."""
        return self._place._replace(process=process)

    def __len__(self) -> int:
        """Returns the number of members."""
        return self._length

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        """Unpickles one member, or a list of some."""
        if isinstance(index, slice):
            return [self[number] for number in range(self._length)[index]]
        if not 0 <= index < self._length:
            index = range(self._length)[index]
        number, rest = divmod(index, self._per_block)
        last, members = self._last
        if number != last:
            offsets = self._offsets
            members = pickle.loads(self._memory[offsets[number] : offsets[number + 1]])
            self._last = number, members
        return members[rest]

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy not meant for workers must not depend on this process.
        return list, (list(self),)


def _unpickled(*fields: int) -> PackedList:
    return PackedList(SharedMemoryAddress(*fields))


def _members_per_block(members: Sequence[Any]) -> int:
    """Returns the number of members to pickle together; 0 if the list should stay whole."""
    from cloudpickle import dumps

    sample = list(islice(members, 0, None, max(len(members) // _SAMPLE, 1)))
    try:
        sizes = [len(dumps(member)) for member in sample]
        together = len(dumps(sample))
    except Exception:
        return 1  # packing will fail too, with the number of the member
    if not sizes or sum(sizes) * len(members) < _LEAST_BYTES * len(sizes):
        return 0
    if sum(sizes) > _SHARED * together + _FRAME_BYTES * len(sizes):
        return 0  # members share one large object, which each block would repeat
    return max(min(_BLOCK_BYTES * len(sizes) // sum(sizes), _MOST_PER_BLOCK), 1)


def _fill(members: Sequence[Any], per_block: int, pickler: Callable[..., Any] | None) -> SharedMemoryAddress:
    """Allocates anonymous memory with `members` in it, and seals it against changes."""
    descriptor = os.memfd_create("towerpack-list", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            begin = _write(members, per_block, file, pickler)
        _seal(descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    inode = os.fstat(descriptor).st_ino
    return SharedMemoryAddress(os.getpid(), descriptor, inode, len(members), per_block, begin)


def _write(
    members: Sequence[Any], per_block: int, file: BinaryIO, make_pickler: Callable[..., Any] | None
) -> int:
    """Writes blocks of members, then the blocks' offsets (int64); returns the start of the offsets."""
    # One pickler for all blocks: creating one costs more than a block.
    pickler = (make_pickler or value_pickler())(file, protocol=5)
    offsets = array("q", [0])
    for start in range(0, len(members), per_block):
        pickler.clear_memo()
        try:
            pickler.dump(members[start : start + per_block])
        except Exception as error:
            _name_the_member(error, members, start)
            raise
        offsets.append(file.tell())
    begin = offsets[-1] + -offsets[-1] % offsets.itemsize
    file.write(bytes(begin - offsets[-1]))
    file.write(offsets)
    return begin


def _name_the_member(error: Exception, members: Sequence[Any], start: int) -> None:
    from cloudpickle import dumps

    for number, member in enumerate(islice(members, start, start + _MOST_PER_BLOCK), start):
        try:
            dumps(member)
        except Exception:
            error.add_note(f"this is member {number} of a list of {len(members)}, a {type(member).__name__}")
            return


def _seal(descriptor: int) -> None:
    import fcntl

    seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)


def _reopened(place: SharedMemoryAddress) -> int:
    """Opens a descriptor in this process for memory held by another process."""
    path = f"/proc/{place.process}/fd/{place.descriptor}"
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise PayloadError(
            f"a list of {place.length} members lies in the memory of process {place.process}, and {path} "
            f"cannot be opened ({error.strerror}): the process has ended, has closed its payload, or belongs "
            "to another user"
        ) from error
    if os.fstat(descriptor).st_ino != place.inode:
        os.close(descriptor)
        raise PayloadError(
            f"a list of {place.length} members lay at {path}, but that is something else now: the process "
            "closed its payload before all workers had unpickled it"
        )
    return descriptor
