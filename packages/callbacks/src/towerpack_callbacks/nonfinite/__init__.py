"""Finds the origin of non-finite values.

`TerminateOnNaN` stops a training before such a value reaches the weights, reports the op that made it, and
writes a folder. `python -m towerpack_callbacks.nonfinite FOLDER` then finds the same op without the model's
code.
"""

from ._terminate_on_nan import Origin, TerminateOnNaN, find_origin, replay

__all__ = ["Origin", "TerminateOnNaN", "find_origin", "replay"]
