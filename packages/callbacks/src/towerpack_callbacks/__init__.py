"""Everything besides the iterations: callbacks, monitors and checkpoints for graph-mode TensorFlow.

The names are in `__init__.pyi`, and are imported when they are used: the command line needs no TensorFlow.
"""

import lazy_loader

__getattr__, __dir__, _names = lazy_loader.attach_stub(__name__, __file__)
# `import *` would put the common words of sub-packages over a script's own names.
_FOLDERS = {"checkpoint", "hyperparam", "metrics", "monitors", "nonfinite", "profile", "testing"}
__all__ = [name for name in _names if name not in _FOLDERS]
