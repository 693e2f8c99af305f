"""Tensors exchanged between processes."""
