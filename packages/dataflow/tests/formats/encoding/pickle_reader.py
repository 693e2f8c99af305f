"""Decodes pickles from standard input, and answers each with the text of an error, or an empty line."""

import resource
import struct
import sys
import traceback
from collections import OrderedDict

import numpy as np

from towerpack_dataflow import FormatError
from towerpack_dataflow.formats.encoding import decode_stored

CONTAINERS = (list, tuple, dict, OrderedDict, set, frozenset)
PLAIN = (*CONTAINERS, str, bytes, bytearray, int, float, complex, bool, type(None), np.ndarray)
MOST_KILOBYTES = 2**16


def check(value):
    """Raises unless the value holds plain data alone; reads the memory of each array."""
    seen, waiting = set(), [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, np.dtype):
            assert part.kind == "O" or not any_objects(part), part
            continue
        assert type(part) in PLAIN or isinstance(part, np.generic), type(part)
        if isinstance(part, np.ndarray) and part.dtype == object:
            waiting += [item for item in part.flat if id(item) not in seen]
        elif isinstance(part, (np.ndarray, np.generic)):
            assert not any_objects(part.dtype), part.dtype
            repr(part.tolist()), part.tobytes()
        elif isinstance(part, CONTAINERS) and id(part) not in seen:
            seen.add(id(part))
            waiting += part
            waiting += part.values() if isinstance(part, dict) else ()


def any_objects(dtype):
    """Tells whether there is a pointer in a dtype, for any flags."""
    inner = [dtype.subdtype[0]] if dtype.subdtype else [field[0] for field in (dtype.fields or {}).values()]
    return dtype.kind == "O" or dtype.hasobject or any(map(any_objects, inner))


def verdict(raw):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        check(decode_stored(raw))
    except FormatError:
        pass
    except BaseException:
        return traceback.format_exc().encode()
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return b"" if grown < MOST_KILOBYTES else b"%d KB of memory" % grown


if __name__ == "__main__":
    print("ready", flush=True)
    while head := sys.stdin.buffer.read(4):
        answer = verdict(sys.stdin.buffer.read(*struct.unpack("<I", head)))
        sys.stdout.buffer.write(struct.pack("<I", len(answer)) + answer)
        sys.stdout.buffer.flush()
