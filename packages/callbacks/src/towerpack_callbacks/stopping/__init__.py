"""Callbacks that end a training."""
