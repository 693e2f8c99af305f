"""`tensorpack.tfutils`, where meanings differ from Towerpack's."""
