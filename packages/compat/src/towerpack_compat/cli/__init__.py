"""The commands of `python -m towerpack_compat`."""
