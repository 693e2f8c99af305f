from ._caffe import load_caffe
from ._run_writer import SaveState, random_state, set_random_state
from ._savers import KeepBest, MaxSaver, MinSaver, ModelSaver, checkpoint_directories, save_now
from ._variable_values import (
    assign_variables,
    complete_copies,
    initial_feeds,
    load_weights,
    snapshot_variables,
)
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
    "load_weights",
    "random_state",
    "read_checkpoint",
    "save_now",
    "set_random_state",
    "snapshot_variables",
    "state_from_json",
    "state_to_json",
    "write_checkpoint",
]
