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
from .actions._run_ops import CallbackFactory, CheckNumerics, RunOp, RunUpdateOps, Seed, StartProcOrThread
from .actions._weight_averages import EMA, ClipWeights, averaged_variables
from .callback._callback import Callback, StepFetch
from .callback._every import Every, LoopState
from .callback._proxy_callback import EnableCallbackIf, PeriodicCallback, PeriodicTrigger, ProxyCallback
from .callback._trainer_protocol import InferenceTower, TrainerProtocol
from .checkpoint import KeepBest, MaxSaver, MinSaver, ModelSaver, SaveState
from .evaluation import (
    BinaryClassificationStats,
    ClassificationError,
    DataParallelInferenceRunner,
    Inferencer,
    InferenceRunner,
    ScalarStats,
)
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
from .loop._callbacks import Callbacks, explain_callbacks
from .loop._plain_loop import make_predictor
from .loop._session_hooks import HookToCallback, as_session_hooks
from .loop._step_counter import StepCounter
from .loop._step_plan import StepPlan
from .loop._step_runner import StepRunner
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
from .monitors._console import ProgressBar
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
from .stopping import (
    CollapseAlarm,
    EarlyStopping,
    OptunaPruning,
    SessionRunTimeout,
    StopAfter,
    StopAtCollapse,
)
from .summaries._add_summary import (
    MOVING_SUMMARIES,
    BatchVariance,
    GradientNorm,
    SimpleMovingAverage,
    add_activation_summary,
    add_moving_summary,
    add_param_summary,
    add_tensor_summary,
)
from .summaries._image_grid import SampleGrid, image_grid
from .summaries._summary_callbacks import (
    DumpTensorAsImage,
    DumpTensors,
    MergeAllSummaries,
    MovingAverageSummary,
    ProcessTensors,
    SendStat,
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
