"""Arrays in NumPy and HDF5 files, row by row."""
