"""The commands of `python -m towerpack_dataflow` and `towerpack`, and the loader of their flows."""

from ._file_commands import add_files
from ._installed_commands import run_installed
from ._show_command import add_show
from ._state_commands import FLOW_HELP, CommandError, FlowNotFoundError, add_state, load_flow

__all__ = [
    "FLOW_HELP",
    "CommandError",
    "FlowNotFoundError",
    "add_files",
    "add_show",
    "add_state",
    "load_flow",
    "run_installed",
]
