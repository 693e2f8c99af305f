from ._checkpoint_layout import (
    LATEST,
    all_checkpoints,
    checkpoint_name,
    is_complete,
    is_unfinished,
    latest_checkpoint,
    linked,
    remove_unfinished,
    step_of,
)
from ._manifest import wrong_file
from ._publish import discard, point_to
from ._read_checkpoint import Checkpoint, load_variables, read_checkpoint
from ._tensor_file import TensorFile
from ._write_checkpoint import encode_state, write_checkpoint, write_files

__all__ = [
    "LATEST",
    "Checkpoint",
    "TensorFile",
    "all_checkpoints",
    "checkpoint_name",
    "discard",
    "encode_state",
    "is_complete",
    "is_unfinished",
    "latest_checkpoint",
    "linked",
    "load_variables",
    "point_to",
    "read_checkpoint",
    "remove_unfinished",
    "step_of",
    "write_checkpoint",
    "write_files",
    "wrong_file",
]
