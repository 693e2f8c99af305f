"""Large copies past the processor's caches, by a setting of the C library."""

from __future__ import annotations

import functools
import os
import platform

__all__ = ["STREAMED", "environment", "in_effect"]

STREAMED = 2**22  # bytes; what is copied in one piece of at least this size goes past the caches

_SETTING = "glibc.cpu.x86_non_temporal_threshold"
_TUNABLES = "GLIBC_TUNABLES"


def environment() -> dict[str, str]:
    """What a fresh process needs so that it copies that way; a setting of the user's stays.

    The C library does it by itself from three quarters of the cache on, but holds all of a host's cache for
    its own, so that on a virtual machine it hardly ever does. In a worker, large blocks are on their way to
    another process.
    """
    tunables = os.environ.get(_TUNABLES, "")
    if _SETTING not in tunables:
        tunables = ":".join(filter(None, (tunables, f"{_SETTING}={STREAMED}")))
    return {_TUNABLES: tunables}


@functools.cache
def in_effect() -> bool:
    """Whether this process was started with such an environment, and the C library knows the setting."""
    ours = f"{_SETTING}={STREAMED}" in os.environ.get(_TUNABLES, "").split(":")
    return ours and platform.machine() == "x86_64" and platform.libc_ver()[0] == "glibc"
