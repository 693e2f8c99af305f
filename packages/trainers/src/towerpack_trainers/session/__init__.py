"""The loop and its surroundings: directory, session, signals, processes, and the end of a training."""

from ._callback_registration import CallbackRegistration
from ._create_session import configure_process, create_session
from ._graph_of_trainer import build_in_graph, graph_of
from ._loop_counters import LoopCounters
from ._process_strategy import ProcessStrategy, SingleProcess, seed_data
from ._run_directory import RunDirectory
from ._session_options import cpu_session_config, default_session_config, gpu_session_config
from ._stop_requests import StopRequests
from ._stop_signals import StopSignals
from ._train_op import TrainOp
from ._training_end import TrainingEnd, translate_error
from ._training_inputs import TrainingInputs
from ._training_loop import TrainingLoop
from ._training_session import SessionAccess, TrainingSession

__all__ = [
    "CallbackRegistration",
    "LoopCounters",
    "ProcessStrategy",
    "RunDirectory",
    "SessionAccess",
    "SingleProcess",
    "StopRequests",
    "StopSignals",
    "TrainOp",
    "TrainingEnd",
    "TrainingInputs",
    "TrainingLoop",
    "TrainingSession",
    "build_in_graph",
    "configure_process",
    "cpu_session_config",
    "create_session",
    "default_session_config",
    "gpu_session_config",
    "graph_of",
    "seed_data",
    "translate_error",
]
