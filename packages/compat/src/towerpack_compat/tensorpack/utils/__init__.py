"""`tensorpack.utils`: the logger, and helpers that Towerpack leaves to Python's standard library."""
