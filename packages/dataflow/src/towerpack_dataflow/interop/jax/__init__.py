"""Flows for JAX, which must be installed.

* `DataLoader`: the batches of a flow as JAX arrays, placed by a sharding.
"""

from __future__ import annotations

try:
    import jax as _  # noqa: F401
except ImportError as error:
    raise ImportError("towerpack_dataflow.interop.jax needs JAX: pip install jax") from error

from ._jax_loader import DataLoader

__all__ = ["DataLoader"]
