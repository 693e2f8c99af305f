"""The callbacks of one run, and the loops that drive them: session hooks, and a plain Python loop."""

from ._callback_times import CallbackTimes
from ._callbacks import Callbacks, check_statistics, explain_callbacks
from ._plain_loop import PlainLoop, make_predictor
from ._session_hooks import HookToCallback, as_session_hooks
from ._step_counter import StepCounter
from ._step_plan import StepPlan
from ._step_runner import StepRunner

__all__ = [
    "CallbackTimes",
    "Callbacks",
    "HookToCallback",
    "PlainLoop",
    "StepCounter",
    "StepPlan",
    "StepRunner",
    "as_session_hooks",
    "check_statistics",
    "explain_callbacks",
    "make_predictor",
]
