"""What a callback is, when it acts, and what it may know of the loop."""

from ._callback import Callback
from ._due_schedule import DueSchedule, Ticker
from ._every import EVERY_EPOCH, EVERY_STEP, Every, as_every
from ._loop_state import LoopState
from ._proxy_callback import ProxyCallback
from ._step_fetch import StepFetch
from ._trainer_protocol import InferenceTower, StatisticsStore, TrainerProtocol

__all__ = [
    "EVERY_EPOCH",
    "EVERY_STEP",
    "Callback",
    "DueSchedule",
    "Every",
    "InferenceTower",
    "LoopState",
    "ProxyCallback",
    "StatisticsStore",
    "StepFetch",
    "Ticker",
    "TrainerProtocol",
    "as_every",
]
