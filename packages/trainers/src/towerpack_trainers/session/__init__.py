"""The loop and its surroundings: directory, session, signals, processes, and the end of a training."""

from ._create_session import (
    add_thread_pools,
    configure_process,
    cpu_session_config,
    create_session,
    default_session_config,
    gpu_session_config,
)
from ._process_strategy import ProcessStrategy, SingleProcess, seed_data
from ._run_directory import RunDirectory
from ._training_end import StopRequests, StopSignals, TrainingEnd, TrainingInputs, translate_error
from ._training_loop import TrainingLoop

__all__ = [
    "ProcessStrategy",
    "RunDirectory",
    "SingleProcess",
    "StopRequests",
    "StopSignals",
    "TrainingEnd",
    "TrainingInputs",
    "TrainingLoop",
    "add_thread_pools",
    "configure_process",
    "cpu_session_config",
    "create_session",
    "default_session_config",
    "gpu_session_config",
    "seed_data",
    "translate_error",
]
