"""The base classes of callbacks, their periods, the protocol of their loop, and shared checks."""

from ._argument_checks import check_choice, check_count, check_number_above_zero
from ._callback import Callback, is_replaced, output_directory
from ._callback_state import load_state_of, state_of
from ._due_schedule import DueSchedule, Ticker
from ._every import EVERY_EPOCH, EVERY_STEP, Every, as_every
from ._loop_state import LoopState
from ._proxy_callback import ProxyCallback
from ._statistic_watch import StatisticWatch, is_better
from ._step_fetch import StepFetch
from ._trainer_protocol import InferenceTower, TrainerProtocol

__all__ = [
    "EVERY_EPOCH",
    "EVERY_STEP",
    "Callback",
    "DueSchedule",
    "Every",
    "InferenceTower",
    "LoopState",
    "ProxyCallback",
    "StatisticWatch",
    "StepFetch",
    "Ticker",
    "TrainerProtocol",
    "as_every",
    "check_choice",
    "check_count",
    "check_number_above_zero",
    "is_better",
    "is_replaced",
    "load_state_of",
    "output_directory",
    "state_of",
]
