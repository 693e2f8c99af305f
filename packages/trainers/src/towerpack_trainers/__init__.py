"""Train graph-mode TensorFlow models at full speed: model description, towers, replication and the loop."""

import typing as _typing

# Public sub-packages; not in __all__, as `import *` would put common words over a script's own names.
from . import distributed as distributed
from . import export as export
from . import gan as gan
from . import optimize as optimize
from . import predict as predict
from . import replicate as replicate
from . import rl as rl
from ._argument_checks import renamed_exports as _renamed_exports
from ._errors import (
    ConfigError,
    EndOfInputError,
    EnvironmentStepError,
    ExportError,
    FrozenConfigError,
    LogDirTakenError,
    ModelError,
    PredictorInputError,
    PredictorProcessError,
    RestoreError,
    TowerRuleError,
    TraceError,
    TrainerStateError,
    UnknownArgumentError,
)
from .base._keras_model import KerasModel
from .base._tower_trainer import (
    BuilderTrainer,
    NoOpTrainer,
    QueueInputTrainer,
    SimpleTrainer,
    SingleCostTrainer,
    TowerTrainer,
)
from .base._trainer import Trainer
from .config import TrainConfig, default_callbacks, default_monitors, fast_dev_run, overfit_batches
from .distributed import DistributedTrainer, MPITrainer
from .export import ModelExporter
from .gan import GANCosts, GANModelDesc, GANTrainer, MultiGPUGANTrainer, SeparateGANTrainer
from .optimize import (
    LAMB,
    LARS,
    AccumGradOptimizer,
    AdamW,
    CheckGradient,
    DynamicLossScaleOptimizer,
    FilterNoneGrad,
    GlobalNormClip,
    GradientProcessor,
    MapGradient,
    PostProcessOptimizer,
    PrintGradient,
    ScaleGradient,
    SummaryGradient,
    VariableAssignmentOptimizer,
    apply_grad_processors,
    mixed_precision,
)
from .predict import (
    DataParallelOfflinePredictor,
    FeedfreePredictor,
    MultiProcessDatasetPredictor,
    MultiThreadAsyncPredictor,
    MultiTowerOfflinePredictor,
    OfflinePredictor,
    PredictConfig,
    SimpleDatasetPredictor,
)
from .replicate import (
    AsyncMultiGPUBuilder,
    AsyncMultiGPUTrainer,
    DataParallelBuilder,
    SyncMultiGPUParameterServerBuilder,
    SyncMultiGPUReplicatedBuilder,
    SyncMultiGPUTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
)
from .reports._describe_training import collect_env_info, describe_trainable_variables
from .reports._input_overhead import InputOverhead
from .restore._session_init import DictRestore, SaverRestore, SessionInit, SmartInit
from .step._hooked_session import HookedSession
from .towers._builder import Builder, SingleDeviceBuilder
from .towers._devices import cpu_session_config, default_session_config, get_num_gpu, gpu_session_config
from .towers._model_desc import ModelDesc
from .towers._objective import Objective
from .towers._tower import Tower, TowerFunc

# Type checkers would otherwise accept any name as an export.
if not _typing.TYPE_CHECKING:
    __getattr__ = _renamed_exports(__name__, {"Headspace": "InputOverhead"})

__all__ = [
    "LAMB",
    "LARS",
    "AccumGradOptimizer",
    "AdamW",
    "AsyncMultiGPUBuilder",
    "AsyncMultiGPUTrainer",
    "Builder",
    "BuilderTrainer",
    "CheckGradient",
    "ConfigError",
    "DataParallelBuilder",
    "DataParallelOfflinePredictor",
    "DictRestore",
    "DistributedTrainer",
    "DynamicLossScaleOptimizer",
    "EndOfInputError",
    "EnvironmentStepError",
    "ExportError",
    "FeedfreePredictor",
    "FilterNoneGrad",
    "FrozenConfigError",
    "GANCosts",
    "GANModelDesc",
    "GANTrainer",
    "GlobalNormClip",
    "GradientProcessor",
    "HookedSession",
    "InputOverhead",
    "KerasModel",
    "LogDirTakenError",
    "MPITrainer",
    "MapGradient",
    "ModelDesc",
    "ModelError",
    "ModelExporter",
    "MultiGPUGANTrainer",
    "MultiProcessDatasetPredictor",
    "MultiThreadAsyncPredictor",
    "MultiTowerOfflinePredictor",
    "NoOpTrainer",
    "Objective",
    "OfflinePredictor",
    "PostProcessOptimizer",
    "PredictConfig",
    "PredictorInputError",
    "PredictorProcessError",
    "PrintGradient",
    "QueueInputTrainer",
    "RestoreError",
    "SaverRestore",
    "ScaleGradient",
    "SeparateGANTrainer",
    "SessionInit",
    "SimpleDatasetPredictor",
    "SimpleTrainer",
    "SingleCostTrainer",
    "SingleDeviceBuilder",
    "SmartInit",
    "SummaryGradient",
    "SyncMultiGPUParameterServerBuilder",
    "SyncMultiGPUReplicatedBuilder",
    "SyncMultiGPUTrainer",
    "SyncMultiGPUTrainerParameterServer",
    "SyncMultiGPUTrainerReplicated",
    "Tower",
    "TowerFunc",
    "TowerRuleError",
    "TowerTrainer",
    "TraceError",
    "TrainConfig",
    "Trainer",
    "TrainerStateError",
    "UnknownArgumentError",
    "VariableAssignmentOptimizer",
    "apply_grad_processors",
    "collect_env_info",
    "cpu_session_config",
    "default_callbacks",
    "default_monitors",
    "default_session_config",
    "describe_trainable_variables",
    "fast_dev_run",
    "get_num_gpu",
    "gpu_session_config",
    "mixed_precision",
    "overfit_batches",
]
