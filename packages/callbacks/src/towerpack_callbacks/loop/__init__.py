"""The callbacks of one run, and the loops that drive them: session hooks, and a plain Python loop."""

from ._callback_times import CallbackTimes
from ._callbacks import Report, check_statistics
from ._plain_loop import PlainLoop

__all__ = ["CallbackTimes", "PlainLoop", "Report", "check_statistics"]
