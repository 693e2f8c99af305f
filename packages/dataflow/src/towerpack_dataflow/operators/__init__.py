"""Flows over another flow that change, repeat, divide or show its datapoints."""
