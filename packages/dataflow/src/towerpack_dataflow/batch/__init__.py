"""Batches: several datapoints as one, in memory that is used again."""
