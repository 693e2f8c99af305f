"""Flows in other frameworks; each module imports its framework.

* `towerpack_dataflow.interop.arrays`: an iterator of arrays, for JAX, NumPy and custom loops;
* `towerpack_dataflow.interop.torch`: a dataset for PyTorch's `DataLoader` (extra `[torch]`).
"""
