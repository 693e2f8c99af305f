"""Everything besides the iterations: callbacks, monitors and checkpoints for graph-mode TensorFlow."""

from . import checkpoint, hyperparam, monitors, nonfinite, profile, testing
from ._bridge import HookToCallback, as_session_hooks
from ._callback import Callback, ProxyCallback, StepFetch
from ._callbacks import Callbacks
from ._dump import DumpTensorAsImage, DumpTensors, ProcessTensors
from ._early_stopping import EarlyStopping
from ._ema import EMA, averaged_variables
from ._errors import (
    CallbackStateError,
    CheckpointError,
    CheckpointWriteError,
    NonFiniteError,
    PeriodError,
    StatisticError,
    StopTraining,
    TensorNotFoundError,
)
from ._explain import explain_callbacks
from ._factory import CallbackFactory
from ._gradient_norm import GradientNorm
from ._graph_ops import CheckNumerics, RunOp, RunUpdateOps
from ._inference import DataParallelInferenceRunner, Inferencer, InferenceRunner
from ._inferencers import BinaryClassificationStats, ClassificationError, ScalarStats
from ._loop_state import LoopState
from ._moving_average import SimpleMovingAverage
from ._period import Every
from ._periodic import EnableCallbackIf, PeriodicCallback, PeriodicTrigger
from ._predictor import make_predictor
from ._progress import ProgressBar
from ._protocol import InferenceTower, TrainerProtocol
from ._seed import Seed
from ._send import SendStat
from ._start import StartProcOrThread
from ._step_counter import StepCounter
from ._summary import MergeAllSummaries, MovingAverageSummary
from ._summary_ops import MOVING_SUMMARIES, add_moving_summary, add_param_summary
from ._tensors import find_tensors
from ._timeout import SessionRunTimeout
from .checkpoint import KeepBest, MaxSaver, MinSaver, ModelSaver
from .hyperparam import (
    GraphVarParam,
    HumanHyperParamSetter,
    HyperParam,
    HyperParamSetter,
    HyperParamSetterWithFunc,
    ObjAttrParam,
    ScheduledHyperParamSetter,
    StatMonitorParamSetter,
)
from .monitors import CSVWriter, JSONWriter, Monitor, Monitors, ScalarPrinter, TFEventWriter
from .nonfinite import TerminateOnNaN
from .profile import (
    EstimatedTimeLeft,
    GPUMemoryTracker,
    GPUUtilizationTracker,
    GraphProfiler,
    HostMemoryTracker,
    TensorBoardProfiler,
    ThroughputTracker,
)

__all__ = [
    "EMA",
    "MOVING_SUMMARIES",
    "BinaryClassificationStats",
    "CSVWriter",
    "Callback",
    "CallbackFactory",
    "CallbackStateError",
    "Callbacks",
    "CheckNumerics",
    "CheckpointError",
    "CheckpointWriteError",
    "ClassificationError",
    "DataParallelInferenceRunner",
    "DumpTensorAsImage",
    "DumpTensors",
    "EarlyStopping",
    "EnableCallbackIf",
    "EstimatedTimeLeft",
    "Every",
    "GPUMemoryTracker",
    "GPUUtilizationTracker",
    "GradientNorm",
    "GraphProfiler",
    "GraphVarParam",
    "HookToCallback",
    "HostMemoryTracker",
    "HumanHyperParamSetter",
    "HyperParam",
    "HyperParamSetter",
    "HyperParamSetterWithFunc",
    "InferenceRunner",
    "InferenceTower",
    "Inferencer",
    "JSONWriter",
    "KeepBest",
    "LoopState",
    "MaxSaver",
    "MergeAllSummaries",
    "MinSaver",
    "ModelSaver",
    "Monitor",
    "Monitors",
    "MovingAverageSummary",
    "NonFiniteError",
    "ObjAttrParam",
    "PeriodError",
    "PeriodicCallback",
    "PeriodicTrigger",
    "ProcessTensors",
    "ProgressBar",
    "ProxyCallback",
    "RunOp",
    "RunUpdateOps",
    "ScalarPrinter",
    "ScalarStats",
    "ScheduledHyperParamSetter",
    "Seed",
    "SendStat",
    "SessionRunTimeout",
    "SimpleMovingAverage",
    "StartProcOrThread",
    "StatMonitorParamSetter",
    "StatisticError",
    "StepCounter",
    "StepFetch",
    "StopTraining",
    "TFEventWriter",
    "TensorBoardProfiler",
    "TensorNotFoundError",
    "TerminateOnNaN",
    "ThroughputTracker",
    "TrainerProtocol",
    "add_moving_summary",
    "add_param_summary",
    "as_session_hooks",
    "averaged_variables",
    "checkpoint",
    "explain_callbacks",
    "find_tensors",
    "hyperparam",
    "make_predictor",
    "monitors",
    "nonfinite",
    "profile",
    "testing",
]
