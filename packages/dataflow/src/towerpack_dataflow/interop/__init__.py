"""Flows in other frameworks; each module imports its framework.

* `towerpack_dataflow.interop.torch`: a loader for PyTorch (extra `[torch]`);
* `towerpack_dataflow.interop.jax`: a loader for JAX;
* `towerpack_dataflow.interop.collate`: batches of different lengths, padded or ragged;
* `towerpack_dataflow.interop.transforms`: random transforms of other libraries;
* `towerpack_dataflow.interop.arrays`: an iterator of arrays, for NumPy and custom loops.
"""
