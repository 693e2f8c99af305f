"""Pickles with out-of-band buffers."""

from __future__ import annotations

import pickle
from typing import Any

from ...storage import dump_by_value

__all__ = ["dump_out_of_band"]

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
