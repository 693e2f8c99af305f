"""`tensorpack.predict`."""
