"""One row or more for each layer of this wheel, which every check of layers runs over."""

from .images import CASES as _IMAGES
from .normalization import CASES as _NORMALIZATION
from .recurrent import CASES as _RECURRENT
from .vectors import CASES as _VECTORS

CASES = [*_IMAGES, *_NORMALIZATION, *_RECURRENT, *_VECTORS]
