"""Flows in other frameworks, each in a module of its own that imports the framework it is for.

* `towerpack_dataflow.interop.arrays`: an iterator of arrays, for JAX, NumPy and loops of one's own;
* `towerpack_dataflow.interop.torch`: a dataset for PyTorch's `DataLoader` (extra `[torch]`).
"""
