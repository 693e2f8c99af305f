"""Checkpoints: one directory each, complete or absent.

```
<log_dir>/model-1000/
    variables.index  variables.data-00000-of-00001    TensorFlow's own format
    state.json                                        loop, callbacks' states, input position
    manifest.json                                     format, versions, size and CRC-32 of every file
<log_dir>/latest -> model-1000
```

A checkpoint is written aside, flushed to the disk, then renamed; `latest` moves last. So whatever is killed
and whenever, the newest complete checkpoint loads.
"""

from ._best_saver import MaxSaver, MinSaver
from ._model_saver import ModelSaver, save_now
from ._random_state import random_state, set_random_state
from ._retention import KeepBest
from .format import (
    Checkpoint,
    all_checkpoints,
    latest_checkpoint,
    load_variables,
    read_checkpoint,
    write_checkpoint,
)
from .variables import assign_variables, initial_feeds, snapshot_variables

__all__ = [
    "Checkpoint",
    "KeepBest",
    "MaxSaver",
    "MinSaver",
    "ModelSaver",
    "all_checkpoints",
    "assign_variables",
    "initial_feeds",
    "latest_checkpoint",
    "load_variables",
    "random_state",
    "read_checkpoint",
    "save_now",
    "set_random_state",
    "snapshot_variables",
    "write_checkpoint",
]
