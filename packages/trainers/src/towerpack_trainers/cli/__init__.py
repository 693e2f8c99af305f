"""The commands of `python -m towerpack_trainers`, one in each file."""
