"""The commands of `python -m towerpack_callbacks` on log directories and checkpoints, one file for each."""
