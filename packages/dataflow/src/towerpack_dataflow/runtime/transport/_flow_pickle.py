"""Flows pickled for workers, once for all of them; an error names the part that cannot be pickled."""

from __future__ import annotations

import functools
import mmap
import os
import pickle
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, final

import numpy as np

from ..._errors import PayloadError, SendError
from ...storage import SharedListPickle, aligned_size, anonymous_file, dump_by_value, mapped, value_pickler
from ._captured_generators import described, generator_types, named_parts, warn_of_captured

__all__ = ["MappedArray", "WorkerPayload", "dump_out_of_band", "dump_payload", "load_payload", "mapped_array"]

_LEAST = 2**16  # bytes; copying a smaller array is as fast


@final
class MappedArray(NamedTuple):
    """The place of an array in a file; unpickles as the array, with changes private to the process.

    Attributes:
        path: path of the file.
        inode, size: inode and size of the file at the time of pickling.
        offset: offset of the first element, in bytes.
        shape, dtype, strides, writeable: properties of the array.
    """

    path: str
    inode: int
    size: int
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype
    strides: tuple[int, ...]
    writeable: bool

    def __reduce__(self) -> tuple[Any, ...]:
        """Unpickles as the array itself."""
        return _mapped_again, tuple(self)


def mapped_array(array: np.ndarray) -> MappedArray | None:
    """Returns the place of `array` in a file that another process can map; else `None`."""
    if array.nbytes < _LEAST or array.dtype.hasobject:
        return None
    root: Any = array
    while isinstance(root, np.ndarray) and not isinstance(root.base, mmap.mmap):
        root = root.base
    if not isinstance(root, np.memmap) or root.filename is None or root.mode == "c":
        return None  # changes in a private mapping are not in the file
    path = os.path.abspath(root.filename)
    try:
        found = os.stat(path)
    except OSError:
        return None
    begin = array.__array_interface__["data"][0] - root.__array_interface__["data"][0] + root.offset
    if os.fspath(path).startswith("/proc/") or found.st_size < root.offset + root.nbytes:
        return None
    place = (path, found.st_ino, found.st_size, begin)
    return MappedArray(*place, array.shape, array.dtype, array.strides, array.flags.writeable)


def _mapped_again(path: str, inode: int, size: int, offset: int, *outline: Any) -> np.ndarray:
    shape, dtype, strides, writeable = outline
    with open(path, "rb") as file:
        found = os.fstat(file.fileno())
        if (found.st_ino, found.st_size) != (inode, size):
            raise PayloadError(
                f"the mapped file {path} of an array was replaced or has changed its length; "
                "do not change the file while workers read it"
            )
        memory = np.memmap(file, np.uint8, "c")
    array: np.ndarray = np.ndarray(shape, dtype, memory.data, offset, strides)
    array.flags.writeable = writeable
    return array


_DEEPEST = 12
_BY_FORK = '; start_method="fork" passes on all objects unchanged'
_CACHING = type(functools.cache(len))


@final
class WorkerPayload:
    """A value pickled for workers, with its large arrays in one piece of shared memory.

    Every worker maps that memory copy-on-write: a large list or table exists once for any number of workers,
    and still no worker can change it for the others.

    Attributes:
        descriptor: descriptor of the shared memory.
    """

    def __init__(self, value: Any, contents: Mapping[str, Any], *, several: bool = False) -> None:
        """Packs `value`; `contents` are its parts under their names in messages.

        With `several`, workers make datapoints of one pass from copies of the value: a random generator in it
        is logged as a warning.

        Raises:
            SendError: a part of `value` cannot be pickled; the text names it.
        """
        self._lists = SharedListPickle()
        pickled, raws = _dump(value, contents, several, self._lists.packing(), _BY_FORK)
        raws.append(memoryview(pickled))
        # The number of parts and their sizes: a command line has no room for those of many arrays.
        counts: Any = np.array([len(raws) + 1, *(raw.nbytes for raw in raws)], np.int64)
        raws.insert(0, memoryview(counts).cast("B"))
        sizes = [raw.nbytes for raw in raws]
        total = sum(map(aligned_size, sizes))
        self.descriptor = anonymous_file(total)
        memory = mapped(self.descriptor, total)
        begin = 0
        for size, raw in zip(sizes, raws, strict=True):
            memory[begin : begin + size] = np.frombuffer(raw, np.uint8)
            begin += aligned_size(size)

    def close(self) -> None:
        """Releases the memory, once all workers have mapped it."""
        self._lists.close()
        os.close(self.descriptor)


def dump_payload(
    value: Any, contents: Mapping[str, Any], *, several: bool = False
) -> tuple[bytes, list[memoryview]]:
    """Pickles a value for workers; returns its large buffers separately.

    Args:
        value: the value.
        contents: its parts under their names in messages.
        several: whether to log a warning that names random generators copied into all workers.

    Raises:
        SendError: a part of `value` cannot be pickled; the text names it.
    """
    return _dump(value, contents, several, nullcontext(), "")


def _dump(
    value: Any, contents: Mapping[str, Any], several: bool, packing: AbstractContextManager[Any], also: str
) -> tuple[bytes, list[memoryview]]:
    raws: list[memoryview] = []
    generators: list[Any] = []
    try:
        with packing:
            pickled = _dump_by_value(value, raws, generators)
    except Exception as error:  # explained outside of the packing, within which lists have no members
        raise _explained(contents, error, also) from error
    if generators and several:
        warn_of_captured(contents, {id(generator) for generator in generators})
    return pickled, raws


def load_payload(descriptor: int) -> Any:
    """Returns the packed value, in a worker, and closes the descriptor."""
    memory = mapped(descriptor, os.fstat(descriptor).st_size, private=True)
    os.close(descriptor)
    numbers = memory[: len(memory) - len(memory) % 8].view(np.int64)
    count = int(numbers[0])
    parts: list[Any] = []
    begin = aligned_size(count * numbers.itemsize)
    for size in numbers[1:count].tolist():
        parts.append(memory[begin : begin + size])
        begin += aligned_size(size)
    return pickle.loads(parts.pop(), buffers=parts)


def _dump_by_value(value: Any, raws: list[memoryview], generators: list[Any]) -> bytes:
    """Pickles like cloudpickle, which sends definitions of `__main__` by value; also those of lost modules.

    A new interpreter with the same `sys.path` would not find a module loaded from elsewhere.

    Args:
        value: the value.
        raws: receives the large buffers.
        generators: receives the random generators in `value`.
    """
    import cloudpickle

    class Pickler(value_pickler()):  # type: ignore[misc]  # a class created on demand
        """Sends modules that the other side would not find by value, and mapped files by name."""

        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, np.ndarray):
                place = mapped_array(obj)
                return NotImplemented if place is None else place.__reduce__()
            if isinstance(obj, kinds):
                generators.append(obj)
            if isinstance(obj, (type, types.FunctionType)):
                lost = _lost_module(getattr(obj, "__module__", None), found)
                if lost is not None:
                    cloudpickle.register_pickle_by_value(lost)
                    registered.append(lost)
            if isinstance(obj, _CACHING) and obj.__module__ == "__main__":
                return _cached, (obj.__wrapped__, obj.cache_parameters())
            return super().reducer_override(obj)

    kinds = generator_types()
    registered: list[types.ModuleType] = []
    found = set(sys.stdlib_module_names) | set(cloudpickle.list_registry_pickle_by_value())
    try:
        return dump_out_of_band(value, raws, Pickler)
    finally:
        for module in registered:
            cloudpickle.unregister_pickle_by_value(module)


def _cached(function: Callable[..., Any], parameters: dict[str, Any]) -> Callable[..., Any]:
    """Recreates a function of `functools.cache`; pickle and cloudpickle send those by name."""
    cached: Callable[..., Any] = functools.lru_cache(**parameters)(function)
    return cached


def _lost_module(name: str | None, found: set[str]) -> types.ModuleType | None:
    """Returns the module of that name if an `import` in a worker would not find it; else adds to `found`."""
    if name is None or name in found:
        return None
    top = name.partition(".")[0]
    importable = top in found or any(
        finder.find_spec(top, None) is not None for finder in sys.meta_path if hasattr(finder, "find_spec")
    )
    found.add(top if importable else name)
    return None if importable or name == "__main__" else sys.modules.get(name)


def _explained(contents: Mapping[str, Any], error: Exception, also: str) -> SendError:
    what, place, culprit = "", contents, error
    step = next(_failing(contents.items()), None)
    while step is not None and what.count(">") < _DEEPEST:
        name, place, culprit = step
        what += name
        step = next(_failing(named_parts(place)), None)
    what += ": " if what else ""
    return SendError(
        f"{what}{described(place)} cannot be sent to a worker process: {type(culprit).__name__}: {culprit}. "
        "Open files, locks and connections belong in reset_state() or worker_init_fn, which run in the "
        f"worker{also}"
    )


def _failing(parts: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any, Exception]]:
    """Yields the parts that cannot be pickled, with the errors."""
    for name, part in parts:
        try:
            _dump_by_value(part, [], [])
        except Exception as error:
            yield name, part, error


_INLINE_ARRAY = 2**12  # bytes; below, a copy in the pickle is cheaper than a lease
_MAIN = b"__main__"


def dump_out_of_band(
    value: Any, raws: list[memoryview], pickler: Any = None, *, by_value: bool = False
) -> bytes:
    """Pickles `value`, and appends its large buffers to `raws` instead of pickling them.

    Objects that pickle cannot send by name, such as an instance of a class defined in a function, are sent by
    value.

    Args:
        value: the value.
        raws: receives the buffers.
        pickler: a class of picklers to use for everything instead.
        by_value: whether definitions of `__main__` are sent by value, too.
    """

    def keep_in_band(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < _INLINE_ARRAY:
            return True
        raws.append(raw)
        return False

    if pickler is not None:
        return dump_by_value(value, keep_in_band, pickler)
    try:
        pickled = pickle.dumps(value, 5, buffer_callback=keep_in_band)
        if not by_value or _MAIN not in pickled:
            return pickled
    except (pickle.PicklingError, AttributeError, TypeError):
        pass
    raws.clear()
    return dump_by_value(value, keep_in_band)
