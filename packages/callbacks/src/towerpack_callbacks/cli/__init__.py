"""The commands of `python -m towerpack_callbacks`, one file for each."""
