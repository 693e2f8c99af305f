"""Calls `towerpack_compat.install()` in the processes that a program of Tensorpack starts."""

from __future__ import annotations

import contextlib
import os
import sys
from importlib import import_module

__all__: list[str] = []

# The environment may have a sitecustomize of its own, behind this one on the path.
sys.path[:] = [place for place in sys.path if not os.path.samefile(place or ".", os.path.dirname(__file__))]
del sys.modules["sitecustomize"]
with contextlib.suppress(ImportError):
    import_module("sitecustomize")

if os.environ.get("TOWERPACK_COMPAT"):
    import_module("towerpack_compat").install(report=False)
