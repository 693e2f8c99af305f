"""Callbacks, monitors and checkpoints for graph-mode TensorFlow training.

`__init__.pyi` lists the names. Each is imported at its first use, so the command line needs no TensorFlow.
"""

import lazy_loader

__getattr__, __dir__, _names = lazy_loader.attach_stub(__name__, __file__)
# With the sub-packages, whose names are common words, `import *` could overwrite names of a script.
_FOLDERS = {"checkpoint", "hyperparam", "metrics", "monitors", "nonfinite", "profile", "testing"}
__all__ = [name for name in _names if name not in _FOLDERS]
