"""The origin of a datapoint, computed from seed, epoch and index."""

from ._origin import Origin, Origins
from ._trace import Trace

__all__ = ["Origin", "Origins", "Trace"]
