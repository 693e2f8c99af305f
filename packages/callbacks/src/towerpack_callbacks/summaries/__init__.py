"""Callbacks and functions that bring values of a step to monitors and files."""
