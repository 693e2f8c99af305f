"""The base classes of callbacks, their periods, the protocol of their loop, and shared checks."""

from ._callback import Callback, StepFetch, is_replaced, output_directory
from ._every import (
    EVERY_EPOCH,
    EVERY_STEP,
    DueSchedule,
    Every,
    LoopState,
    Ticker,
    as_every,
    check_choice,
    check_count,
    check_function,
    check_number_above_zero,
    describe_seconds,
)
from ._proxy_callback import ProxyCallback
from ._trainer_protocol import (
    InferenceTower,
    StatisticWatch,
    TrainerProtocol,
    is_better,
    load_state_of,
    state_of,
)

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
    "check_function",
    "check_number_above_zero",
    "describe_seconds",
    "is_better",
    "is_replaced",
    "load_state_of",
    "output_directory",
    "state_of",
]
