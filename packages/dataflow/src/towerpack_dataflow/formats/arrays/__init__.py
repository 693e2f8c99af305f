"""Arrays in NumPy and HDF5 files, row by row."""

from ._file_rows import NumpyData, array_of, members_of, write_npz
from ._hdf5 import HDF5Data, HDF5Serializer, hdf5_version
from ._numpy_serializer import NumpySerializer, numpy_version

__all__ = [
    "HDF5Data",
    "HDF5Serializer",
    "NumpyData",
    "NumpySerializer",
    "array_of",
    "hdf5_version",
    "members_of",
    "numpy_version",
    "write_npz",
]
