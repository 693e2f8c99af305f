"""Where a datapoint comes from: computed from seed, epoch and index, and shown."""

from ._origin import Origin
from ._trace import Trace
from ._traced_flow import TracedFlow

__all__ = ["Origin", "Trace", "TracedFlow"]
