"""The callbacks of one run, and the loops that drive them: session hooks, and a plain Python loop."""

from ._callback_times import CallbackTimes
from ._callbacks import check_statistics
from ._plain_loop import PlainLoop

__all__ = ["CallbackTimes", "PlainLoop", "check_statistics"]
