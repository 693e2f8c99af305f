"""Operators over several flows: concatenate, join, mix."""
