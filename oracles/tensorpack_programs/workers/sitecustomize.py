"""Gives worker processes of Tensorpack, which start from nothing, the names that NumPy has removed."""

import numpy as np

vars(np).update(object=object, bool=bool, int=int, float=float)
