"""The origin of a datapoint, computed from seed, epoch and index."""

from ._origin import Origin
from ._trace import Trace
from ._traced_flow import TracedFlow

__all__ = ["Origin", "Trace", "TracedFlow"]
