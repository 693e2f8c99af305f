"""The session of a run, its signals and its directory."""
