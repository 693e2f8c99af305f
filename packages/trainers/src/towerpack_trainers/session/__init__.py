"""The loop and its surroundings: directory, session, signals, processes, and the end of a training."""

from ._process_strategy import SingleProcess, create_session
from ._run_directory import RunDirectory
from ._training_end import StopRequests, StopSignals, TrainingEnd, TrainingInputs, translate_error
from ._training_loop import TrainingLoop

__all__ = [
    "RunDirectory",
    "SingleProcess",
    "StopRequests",
    "StopSignals",
    "TrainingEnd",
    "TrainingInputs",
    "TrainingLoop",
    "create_session",
    "translate_error",
]
