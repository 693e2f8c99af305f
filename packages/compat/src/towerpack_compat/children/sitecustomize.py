"""Calls `towerpack_compat.install()` in the child processes of a Tensorpack program."""

from __future__ import annotations

import contextlib
import os
import sys
from importlib import import_module

__all__: list[str] = []

# The environment may have another sitecustomize, later on the path.
_here, _this = os.path.dirname(os.path.realpath(__file__)), sys.modules.pop("sitecustomize")
sys.path[:] = [place for place in sys.path if os.path.realpath(place) != _here]
with contextlib.suppress(ImportError):
    import_module("sitecustomize")
sys.modules.setdefault("sitecustomize", _this)

if os.environ.get("TOWERPACK_COMPAT"):
    import_module("towerpack_compat").install(report=False)
