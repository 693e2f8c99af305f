"""Evaluation during training, and the statistics of one evaluation round."""
