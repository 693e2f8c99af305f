from ._best_saver import MaxSaver, MinSaver
from ._model_saver import ModelSaver
from ._random_state import random_state, set_random_state
from ._retention import KeepBest
from ._save_state import SaveState
from ._savers import checkpoint_directories, save_now
from .caffe import load_caffe
from .format import (
    Checkpoint,
    all_checkpoints,
    latest_checkpoint,
    load_variables,
    read_checkpoint,
    state_from_json,
    state_to_json,
    write_checkpoint,
)
from .variables import (
    assign_variables,
    complete_copies,
    initial_feeds,
    snapshot_variables,
)

__all__ = [
    "Checkpoint",
    "KeepBest",
    "MaxSaver",
    "MinSaver",
    "ModelSaver",
    "SaveState",
    "all_checkpoints",
    "assign_variables",
    "checkpoint_directories",
    "complete_copies",
    "initial_feeds",
    "latest_checkpoint",
    "load_caffe",
    "load_variables",
    "random_state",
    "read_checkpoint",
    "save_now",
    "set_random_state",
    "snapshot_variables",
    "state_from_json",
    "state_to_json",
    "write_checkpoint",
]
