"""Flows in other frameworks, one module for each framework, which it imports.

* `towerpack_dataflow.interop.arrays`: an iterator of arrays, for JAX, NumPy and loops of one's own;
* `towerpack_dataflow.interop.torch`: a dataset for PyTorch's `DataLoader` (extra `[torch]`).
"""
