"""`tensorpack.utils`: the logger, and functions that Towerpack replaces by the standard library."""
