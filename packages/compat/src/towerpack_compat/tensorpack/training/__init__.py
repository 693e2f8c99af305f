"""Trainers that are created without a configuration and build in the default graph, as in Tensorpack."""
