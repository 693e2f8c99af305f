"""Arrays in NumPy and HDF5 files, row by row."""

from ._file_rows import write_npz

__all__ = ["write_npz"]
