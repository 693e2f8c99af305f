"""Tensorpack's names with Tensorpack's meanings, where Towerpack has other ones."""
