"""Callbacks that do something besides training: run ops, start processes, average and clip weights."""
