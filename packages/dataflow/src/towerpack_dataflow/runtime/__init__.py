"""Flows run by worker processes and threads; `README.md` in this folder explains the design."""
