"""Caches of datapoints, in memory or on a disk."""
