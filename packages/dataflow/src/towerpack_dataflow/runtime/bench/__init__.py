"""Measures the speed of flows: time per flow, and the benefit of workers."""
