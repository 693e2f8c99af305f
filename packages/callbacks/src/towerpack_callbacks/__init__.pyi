from . import checkpoint as checkpoint
from . import hyperparam as hyperparam
from . import metrics as metrics
from . import monitors as monitors
from . import nonfinite as nonfinite
from . import profile as profile
from . import testing as testing
from ._errors import (
    CallbackFailedError,
    CallbackStateError,
    CheckpointError,
    CheckpointWriteError,
    NonFiniteError,
    PeriodError,
    SamplesError,
    ScopeError,
    StatisticError,
    StopTraining,
    TensorNotFoundError,
)
from .actions._callback_factory import CallbackFactory
from .actions._clip_weights import ClipWeights
from .actions._reseed import Seed
from .actions._run_ops import CheckNumerics, RunOp, RunUpdateOps
from .actions._start_process import StartProcOrThread
from .actions._weight_averages import EMA, averaged_variables
from .callback import Callback, Every, InferenceTower, LoopState, ProxyCallback, StepFetch, TrainerProtocol
from .callback.wrappers._callback_gate import EnableCallbackIf, PeriodicCallback
from .callback.wrappers._periodic_trigger import PeriodicTrigger
from .checkpoint import KeepBest, MaxSaver, MinSaver, ModelSaver, SaveState
from .evaluation._evaluation_statistics import BinaryClassificationStats, ClassificationError, ScalarStats
from .evaluation._inference_runner import DataParallelInferenceRunner, Inferencer, InferenceRunner
from .graph import find_ancestors, find_tensors
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
from .loop import (
    Callbacks,
    HookToCallback,
    StepCounter,
    StepPlan,
    StepRunner,
    as_session_hooks,
    explain_callbacks,
    make_predictor,
)
from .monitors import (
    CSVWriter,
    JSONWriter,
    LogFile,
    Monitor,
    Monitors,
    RunRecord,
    ScalarPrinter,
    TFEventWriter,
)
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
from .profile._progress_bar import ProgressBar
from .stopping._collapse_alarm import CollapseAlarm, StopAtCollapse
from .stopping._early_stopping import EarlyStopping
from .stopping._optuna_pruning import OptunaPruning
from .stopping._step_timeout import SessionRunTimeout
from .stopping._stop_after import StopAfter
from .summaries import (
    MOVING_SUMMARIES,
    BatchVariance,
    DumpTensorAsImage,
    DumpTensors,
    GradientNorm,
    MergeAllSummaries,
    MovingAverageSummary,
    ProcessTensors,
    SampleGrid,
    SendStat,
    SimpleMovingAverage,
    add_activation_summary,
    add_moving_summary,
    add_param_summary,
    add_tensor_summary,
    image_grid,
)

__all__ = [
    "EMA",
    "MOVING_SUMMARIES",
    "BatchVariance",
    "BinaryClassificationStats",
    "CSVWriter",
    "Callback",
    "CallbackFactory",
    "CallbackFailedError",
    "CallbackStateError",
    "Callbacks",
    "CheckNumerics",
    "CheckpointError",
    "CheckpointWriteError",
    "ClassificationError",
    "ClipWeights",
    "CollapseAlarm",
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
    "LogFile",
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
    "OptunaPruning",
    "PeriodError",
    "PeriodicCallback",
    "PeriodicTrigger",
    "ProcessTensors",
    "ProgressBar",
    "ProxyCallback",
    "RunOp",
    "RunRecord",
    "RunUpdateOps",
    "SampleGrid",
    "SamplesError",
    "SaveState",
    "ScalarPrinter",
    "ScalarStats",
    "ScheduledHyperParamSetter",
    "ScopeError",
    "Seed",
    "SendStat",
    "SessionRunTimeout",
    "SimpleMovingAverage",
    "StartProcOrThread",
    "StatMonitorParamSetter",
    "StatisticError",
    "StepCounter",
    "StepFetch",
    "StepPlan",
    "StepRunner",
    "StopAfter",
    "StopAtCollapse",
    "StopTraining",
    "TFEventWriter",
    "TensorBoardProfiler",
    "TensorNotFoundError",
    "TerminateOnNaN",
    "ThroughputTracker",
    "TrainerProtocol",
    "add_activation_summary",
    "add_moving_summary",
    "add_param_summary",
    "add_tensor_summary",
    "as_session_hooks",
    "averaged_variables",
    "explain_callbacks",
    "find_ancestors",
    "find_tensors",
    "image_grid",
    "make_predictor",
]
