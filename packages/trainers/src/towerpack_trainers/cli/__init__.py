"""The commands of `python -m towerpack_trainers`, one in each file."""

from ._model_commands import TrainerCommandError, add_describe, add_export, add_predict
from ._run_commands import add_env, add_launch, add_migrate, add_trace

__all__ = [
    "TrainerCommandError",
    "add_describe",
    "add_env",
    "add_export",
    "add_launch",
    "add_migrate",
    "add_predict",
    "add_trace",
]
