"""Tensorpack's names with Tensorpack's behaviour, where Towerpack's differs."""
