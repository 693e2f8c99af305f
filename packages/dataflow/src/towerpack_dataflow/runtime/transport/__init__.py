"""Datapoints, flows and errors on their way between two processes."""
