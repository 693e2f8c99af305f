"""Stands in for deepdish, whose HDF5 files only the later stages of a program in repositories.toml read."""
