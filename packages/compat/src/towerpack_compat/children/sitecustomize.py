"""Calls `towerpack_compat.install()` in the processes that a program of Tensorpack starts."""

import contextlib
import os
import sys

# The environment may have a sitecustomize of its own, behind this one on the path.
sys.path[:] = [place for place in sys.path if not os.path.samefile(place or ".", os.path.dirname(__file__))]
del sys.modules["sitecustomize"]
with contextlib.suppress(ImportError):
    import sitecustomize  # noqa: F401

if os.environ.get("TOWERPACK_COMPAT"):
    from towerpack_compat import install

    install(report=False)
