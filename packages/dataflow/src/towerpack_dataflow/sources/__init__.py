"""Flows that start from data: lists, iterables, arrays."""
