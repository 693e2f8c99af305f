"""The base classes of callbacks, their periods, the protocol of their loop, and shared checks."""

from ._every import EVERY_EPOCH, EVERY_STEP, DueSchedule, Ticker, as_every
from ._trainer_protocol import StatisticWatch, is_better

__all__ = ["EVERY_EPOCH", "EVERY_STEP", "DueSchedule", "StatisticWatch", "Ticker", "as_every", "is_better"]
