"""Train graph-mode TensorFlow models at full speed: model description, towers, replication and the loop."""

from . import predict, replicate
from ._config import TrainConfig, default_callbacks, default_monitors
from ._describe import describe_trainable_variables
from ._errors import ConfigError, EndOfInputError, ModelError, RestoreError, TowerRuleError, TrainerStateError
from ._hooked_session import HookedSession
from ._model import ModelDesc
from ._session import default_session_config
from ._session_init import DictRestore, SaverRestore, SessionInit, SmartInit
from ._single_cost import QueueInputTrainer, SimpleTrainer, SingleCostTrainer
from ._tower import Tower, TowerFunc
from ._tower_trainer import TowerTrainer
from ._trainer import Trainer
from .predict import OfflinePredictor, PredictConfig
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

__all__ = [
    "AsyncMultiGPUBuilder",
    "AsyncMultiGPUTrainer",
    "ConfigError",
    "DataParallelBuilder",
    "DictRestore",
    "EndOfInputError",
    "HookedSession",
    "ModelDesc",
    "ModelError",
    "OfflinePredictor",
    "PredictConfig",
    "QueueInputTrainer",
    "RestoreError",
    "SaverRestore",
    "SessionInit",
    "SimpleTrainer",
    "SingleCostTrainer",
    "SmartInit",
    "SyncMultiGPUParameterServerBuilder",
    "SyncMultiGPUReplicatedBuilder",
    "SyncMultiGPUTrainer",
    "SyncMultiGPUTrainerParameterServer",
    "SyncMultiGPUTrainerReplicated",
    "Tower",
    "TowerFunc",
    "TowerRuleError",
    "TowerTrainer",
    "TrainConfig",
    "Trainer",
    "TrainerStateError",
    "default_callbacks",
    "default_monitors",
    "default_session_config",
    "describe_trainable_variables",
    "predict",
    "replicate",
]
