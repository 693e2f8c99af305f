"""Trainers that are made without a configuration, as Tensorpack's are, and build in the default graph."""
