"""Callbacks that change when another callback acts."""
