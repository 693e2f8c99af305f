from ._callback_files import add_files, folder_of, key_of
from ._checkpoint_layout import (
    CALLBACK_FILES,
    LATEST,
    STATE,
    all_checkpoints,
    checkpoint_name,
    discard,
    is_complete,
    is_unfinished,
    remove_unfinished,
    step_of,
)
from ._exact_json import shown_value, state_from_json, state_to_json
from ._files_on_disk import disk_usage, files_below, readable_size
from ._manifest import read_json, wrong_file
from ._pointers import latest_checkpoint, linked, point_to, pointers_in, target_of
from ._read_checkpoint import Checkpoint, load_variables, read_checkpoint
from ._tensor_file import TensorFile
from ._write_checkpoint import (
    begin_checkpoint,
    encode_state,
    removed_after_error,
    write_checkpoint,
    write_files,
)

__all__ = [
    "CALLBACK_FILES",
    "LATEST",
    "STATE",
    "Checkpoint",
    "TensorFile",
    "add_files",
    "all_checkpoints",
    "begin_checkpoint",
    "checkpoint_name",
    "discard",
    "disk_usage",
    "encode_state",
    "files_below",
    "folder_of",
    "is_complete",
    "is_unfinished",
    "key_of",
    "latest_checkpoint",
    "linked",
    "load_variables",
    "point_to",
    "pointers_in",
    "read_checkpoint",
    "read_json",
    "readable_size",
    "remove_unfinished",
    "removed_after_error",
    "shown_value",
    "state_from_json",
    "state_to_json",
    "step_of",
    "target_of",
    "write_checkpoint",
    "write_files",
    "wrong_file",
]
