"""The commands of `python -m towerpack_dataflow` and `towerpack`, and the loader of their flows."""

from ._file_commands import add_files
from ._installed_commands import run_installed
from ._load_flow import FLOW_HELP, FlowNotFoundError, load_flow
from ._show_command import add_show
from ._state_commands import CommandError, add_state

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
