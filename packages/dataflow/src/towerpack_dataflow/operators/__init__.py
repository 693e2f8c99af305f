"""Operators over one flow that change, repeat, divide or print its datapoints."""
