"""`tensorpack.callbacks`, where the behaviour differs from Towerpack's."""
