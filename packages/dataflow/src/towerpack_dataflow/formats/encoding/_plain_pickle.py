"""An interpreter for pickles of plain data; it calls a few fixed functions and never classes of the pickle.

Python's own unpickler calls any object named in a pickle, sets any state on any object, and allocates any
requested size. This one supports the opcodes that `pickle` writes for builtin containers and arrays, from
protocol 2 on.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final, final

from ..._errors import FormatError

__all__ = ["Name", "PlainPickle", "Unbuilt"]

_MOST_KEY_PARTS = 2**10
_SCALARS = {str, bytes, int, float, bool, type(None), complex}


@final
class Name:
    """A name that a pickle may use.

    Args:
        call: creates a value from the arguments; `None` for a name that is only an argument.
    """

    def __init__(self, call: Callable[..., Any] | None) -> None:
        self.call = call


@final
class Unbuilt:
    """A value without its state.

    Args:
        build: creates the value from its state.
    """

    def __init__(self, build: Callable[[Any], Any]) -> None:
        self.build = build
        self.places: list[int] = []  # positions in the memo


@final
class PlainPickle:
    """Interprets one pickle.

    Args:
        data: the bytes.
        names: the names allowed in the pickle, by module and name.
    """

    def __init__(self, data: memoryview, names: Mapping[tuple[str, str], Name]) -> None:
        self._data, self._at, self._names = data, 0, names
        self._stack: list[Any] = []
        self._marks: list[list[Any]] = []  # the stacks below each mark
        self._memo: dict[int, Any] = {}

    def load(self) -> Any:
        """Returns the value, which may contain a `Name` or an `Unbuilt`.

        Raises:
            FormatError: the pickle uses another name, or has an opcode that plain data does not need.
            ValueError, TypeError, LookupError, struct.error: the pickle is damaged.
        """
        while (opcode := self._byte()) != _STOP:
            act = _ACTS.get(opcode)
            if act is None:
                raise FormatError(
                    f"the record holds a pickle with the opcode {bytes([opcode])!r}, which plain data does "
                    "not need; pass allow_pickle=True only if you would run a program "
                    "from the source of the file"
                )
            act(self)
        return self.take()

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def number(self, form: struct.Struct) -> Any:
        (number,) = form.unpack(self.read(form.size))
        return number

    def read(self, size: int) -> memoryview:
        """Returns `size` bytes, if the pickle has them."""
        end = self._at + size
        if not 0 <= size <= len(self._data) - self._at:
            raise ValueError(f"it ends within {size} bytes of a value")
        read, self._at = self._data[self._at : end], end
        return read

    def line(self) -> str:
        end = self._at
        while self._data[end] != _NEWLINE:
            end += 1
        read = str(self._data[self._at : end], "utf-8")
        self._at = end + 1
        return read

    # The effects of opcodes.

    def push(self, value: Any) -> None:
        self._stack.append(value)

    def take(self) -> Any:
        return self._stack.pop()

    def repeat(self) -> None:
        self.push(self._stack[-1])

    def mark(self) -> None:
        self._marks.append(self._stack)
        self._stack = []

    def pop(self) -> None:
        if self._stack:
            self._stack.pop()
        else:
            self.since_mark()

    def since_mark(self) -> list[Any]:
        items, self._stack = self._stack, self._marks.pop()
        return items

    def join(self, size: int) -> None:
        if len(self._stack) < size:
            raise LookupError("a tuple has more items than the stack")
        self._stack[-size:] = [tuple(self._stack[-size:])]

    def append(self, items: list[Any]) -> None:
        self._of(list).extend(items)

    def set_items(self, items: list[Any]) -> None:
        target = self._of(dict, OrderedDict)
        if len(items) % 2:
            raise ValueError("a dict has a key without a value")
        for key, value in zip(items[::2], items[1::2]):
            target[checked_key(key)] = value

    def add(self, items: list[Any]) -> None:
        self._of(set).update(map(checked_key, items))

    def _of(self, *kinds: type) -> Any:
        target = self._stack[-1]
        if type(target) not in kinds:
            raise TypeError(f"items are added to a {type(target).__name__}")
        return target

    def remember(self, place: int) -> None:
        value = self._memo[place] = self._stack[-1]
        if type(value) is Unbuilt:
            value.places.append(place)

    def memoize(self) -> None:
        self.remember(len(self._memo))

    def recall(self, place: int) -> None:
        self.push(self._memo[place])

    def name(self, module: Any, name: Any) -> None:
        if type(module) is not str or type(name) is not str:
            raise TypeError("a name does not consist of two strings")
        place = module.replace("numpy.core", "numpy._core").replace("__builtin__", "builtins")
        found = self._names.get((place, name))
        if found is None:
            raise FormatError(
                f"the record holds a pickle that needs {module:.100}.{name:.100}, which could execute "
                "any code; pass allow_pickle=True only if you would run a program from the "
                "source of the file"
            )
        self.push(found)

    def call(self) -> None:
        arguments, name = self.take(), self.take()
        if type(name) is not Name or name.call is None or type(arguments) is not tuple:
            raise TypeError(f"a {type(name).__name__} is called")
        self.push(name.call(*arguments))

    def build(self) -> None:
        """Replaces a value without state by the complete value, on the stack and in the memo."""
        state, target = self.take(), self.take()
        if type(target) is not Unbuilt:
            raise TypeError(f"a state is set on a {type(target).__name__}")
        value = target.build(state)
        self._memo.update(dict.fromkeys(target.places, value))
        self.push(value)


def checked_key(key: Any) -> Any:
    """Returns the key of a dict or member of a set after a size check: Python hashes it recursively.

    Raises:
        ValueError: it has too many parts, repeated ones included.
    """
    if type(key) in _SCALARS:
        return key
    parts = [key]
    for part in parts:
        if type(part) in {tuple, frozenset}:
            parts += part
        if len(parts) > _MOST_KEY_PARTS:
            raise ValueError(f"a key has more than {_MOST_KEY_PARTS} parts")
    return key


_STOP: Final = ord(".")
_NEWLINE: Final = ord("\n")
_BYTE, _SHORT, _INT = struct.Struct("<B"), struct.Struct("<H"), struct.Struct("<i")
_COUNT, _LONG, _FLOAT = struct.Struct("<I"), struct.Struct("<Q"), struct.Struct(">d")
_Act = Callable[[PlainPickle], Any]


def _constant(value: Any) -> _Act:
    return lambda pickle: pickle.push(value)


def _fresh(kind: Callable[[], Any]) -> _Act:
    return lambda pickle: pickle.push(kind())


def _fixed(form: struct.Struct) -> _Act:
    return lambda pickle: pickle.push(pickle.number(form))


def _sized(form: struct.Struct, decode: Callable[[memoryview], Any]) -> _Act:
    return lambda pickle: pickle.push(decode(pickle.read(pickle.number(form))))


def _text(raw: memoryview) -> str:
    return str(raw, "utf-8", "surrogatepass")


def _ascii(raw: memoryview) -> str:
    return str(raw, "ascii")


def _integer(raw: memoryview) -> int:
    return int.from_bytes(raw, "little", signed=True)


def _tuples(size: int) -> _Act:
    return lambda pickle: pickle.join(size)


_ACTS: Final[dict[int, _Act]] = {
    opcode[0]: act
    for opcode, act in {
        b"\x80": lambda pickle: pickle.read(1),  # the protocol; the opcodes suffice without it
        b"\x95": lambda pickle: pickle.read(8),  # a frame: a size, for which nothing is allocated
        b"N": _constant(None),
        b"\x88": _constant(True),
        b"\x89": _constant(False),
        b")": _constant(()),
        b"]": _fresh(list),
        b"}": _fresh(dict),
        b"\x8f": _fresh(set),
        b"K": _fixed(_BYTE),
        b"M": _fixed(_SHORT),
        b"J": _fixed(_INT),
        b"G": _fixed(_FLOAT),
        b"\x8a": _sized(_BYTE, _integer),
        b"\x8b": _sized(_INT, _integer),
        b"U": _sized(_BYTE, _ascii),
        b"T": _sized(_INT, _ascii),
        b"\x8c": _sized(_BYTE, _text),
        b"X": _sized(_COUNT, _text),
        b"\x8d": _sized(_LONG, _text),
        b"C": _sized(_BYTE, bytes),
        b"B": _sized(_COUNT, bytes),
        b"\x8e": _sized(_LONG, bytes),
        b"\x96": _sized(_LONG, bytearray),
        b"(": PlainPickle.mark,
        b"0": PlainPickle.pop,
        b"1": PlainPickle.since_mark,
        b"2": PlainPickle.repeat,
        b"\x85": _tuples(1),
        b"\x86": _tuples(2),
        b"\x87": _tuples(3),
        b"t": lambda pickle: pickle.push(tuple(pickle.since_mark())),
        b"\x91": lambda pickle: pickle.push(frozenset(map(checked_key, pickle.since_mark()))),
        b"a": lambda pickle: pickle.append([pickle.take()]),
        b"e": lambda pickle: pickle.append(pickle.since_mark()),
        b"s": lambda pickle: pickle.set_items([pickle.take(), pickle.take()][::-1]),
        b"u": lambda pickle: pickle.set_items(pickle.since_mark()),
        b"\x90": lambda pickle: pickle.add(pickle.since_mark()),
        b"q": lambda pickle: pickle.remember(pickle.number(_BYTE)),
        b"r": lambda pickle: pickle.remember(pickle.number(_COUNT)),
        b"\x94": PlainPickle.memoize,
        b"h": lambda pickle: pickle.recall(pickle.number(_BYTE)),
        b"j": lambda pickle: pickle.recall(pickle.number(_COUNT)),
        b"c": lambda pickle: pickle.name(pickle.line(), pickle.line()),
        b"\x93": lambda pickle: pickle.name(*[pickle.take(), pickle.take()][::-1]),
        b"R": PlainPickle.call,
        b"b": PlainPickle.build,
    }.items()
}
