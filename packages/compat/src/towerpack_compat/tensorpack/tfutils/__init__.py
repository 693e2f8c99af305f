"""`tensorpack.tfutils`, where the behaviour differs from Towerpack's."""
