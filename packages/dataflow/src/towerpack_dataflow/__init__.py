"""Load data fast, in pure Python: composable, exact, resumable flows. Never imports TensorFlow.

`__init__.pyi` lists the names. Each is imported at its first use: a program, or a worker, needs few of them.
"""

from ._argument_checks import lazy_exports as _lazy_exports
from ._argument_checks import names_in_stub as _names_in_stub

_sources = _names_in_stub(__file__)
__getattr__, __dir__ = _lazy_exports(__name__, _sources, {"ParcelError": "PayloadError"})
# Without the sub-packages, whose names are common words: `import *` could overwrite names of a script.
__all__ = sorted(_sources.keys() - {"augment", "datasets"})
