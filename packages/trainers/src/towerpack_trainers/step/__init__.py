"""The steps of a training: one or several in each session call, with the fetches of callbacks."""

from ._choose_steps import PrologueOps, check_position, choose_steps
from ._copies_of_step import Given, StepCopies
from ._fused_steps import SpeedTrial, TrainingSteps
from ._hooked_session import HookedSession

__all__ = [
    "Given",
    "HookedSession",
    "PrologueOps",
    "SpeedTrial",
    "StepCopies",
    "TrainingSteps",
    "check_position",
    "choose_steps",
]
