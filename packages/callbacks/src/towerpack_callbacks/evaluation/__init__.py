"""Evaluation while training, and the statistics of one round."""
