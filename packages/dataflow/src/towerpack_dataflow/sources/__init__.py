"""Flows over data: lists, iterables, arrays."""
