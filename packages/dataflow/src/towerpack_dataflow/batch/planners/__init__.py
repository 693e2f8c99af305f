"""Planned passes: groups of datapoints and the order of flows, computed before anything is read."""
