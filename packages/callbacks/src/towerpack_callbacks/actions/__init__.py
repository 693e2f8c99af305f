"""Callbacks that act on the graph or the process: run ops, start processes, average and clip weights."""
