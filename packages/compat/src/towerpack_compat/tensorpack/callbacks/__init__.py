"""`tensorpack.callbacks`, where meanings differ from Towerpack's."""
