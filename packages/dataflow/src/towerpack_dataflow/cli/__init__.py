"""The commands of `python -m towerpack_dataflow`, and the loader of their flows."""

from ._file_commands import add_files
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
]
