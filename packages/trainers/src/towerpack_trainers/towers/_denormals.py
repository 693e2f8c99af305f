"""Flushes denormal numbers (below 1e-38) to zero in the calling thread, as TensorFlow does in its threads."""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, final

__all__ = ["as_in_threads", "can_flush_denormals"]


def can_flush_denormals() -> bool:
    """Returns whether `as_in_threads` has an effect on this system."""
    return _known_environment() is not None


def as_in_threads(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that calls `function` in the floating-point environment of TensorFlow's threads.

    A session call in the calling thread then has the same results as in those threads. It takes a
    microsecond more. On systems with another environment than Linux's, `function` is returned.
    """
    known = _known_environment()
    if known is None:
        return function
    save, restore, flushing = known

    def call(*arguments: Any) -> Any:
        before = type(flushing)()
        save(before)
        restore(flushing)
        try:
            return function(*arguments)
        finally:
            restore(before)

    return call


# The `fenv_t` of Linux by processor: the number of its 32-bit words, the control word among them, and the
# bits that flush results, and where there is one for them, operands.
_LAYOUTS = {"x86_64": (8, 7, 0x8040), "aarch64": (2, 0, 0x1000000)}
_DEFAULT = ctypes.c_void_p(-1)  # `FE_DFL_ENV`


@final
class _KnownEnvironment(NamedTuple):
    save: Callable[[Any], int]
    restore: Callable[[Any], int]
    flushing: ctypes.Array[ctypes.c_uint32]


@cache
def _known_environment() -> _KnownEnvironment | None:
    if sys.platform != "linux" or platform.machine() not in _LAYOUTS:
        return None
    words, control, bits = _LAYOUTS[platform.machine()]
    library = ctypes.PyDLL(None)  # keeps the interpreter's lock, since these calls do not wait
    before, flushing = (ctypes.c_uint32 * words)(), (ctypes.c_uint32 * words)()
    library.fegetenv(before)
    library.fesetenv(_DEFAULT)
    library.fegetenv(flushing)
    library.fesetenv(before)
    flushing[control] |= bits
    return _KnownEnvironment(library.fegetenv, library.fesetenv, flushing)
