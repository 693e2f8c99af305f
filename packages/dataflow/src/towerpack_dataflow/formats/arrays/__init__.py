"""Arrays in files: NumPy's and HDF5, row by row."""

from ._hdf5 import HDF5Data, HDF5Serializer
from ._npy_format import array_of, members_of
from ._numpy_data import NumpyData
from ._numpy_serializer import NumpySerializer

__all__ = ["HDF5Data", "HDF5Serializer", "NumpyData", "NumpySerializer", "array_of", "members_of"]
