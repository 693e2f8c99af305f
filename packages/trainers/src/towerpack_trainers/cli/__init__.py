"""The commands of `python -m towerpack_trainers`, one in each file."""

from ._describe_command import add_describe
from ._env_command import add_env
from ._export_command import add_export
from ._launch_command import add_launch
from ._model_arguments import CommandError
from ._old_migrate_command import add_migrate
from ._predict_command import add_predict
from ._trace_command import add_trace

__all__ = [
    "CommandError",
    "add_describe",
    "add_env",
    "add_export",
    "add_launch",
    "add_migrate",
    "add_predict",
    "add_trace",
]
