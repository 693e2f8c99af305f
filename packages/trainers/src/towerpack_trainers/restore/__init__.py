"""The initial values of a run, and the contents of its checkpoints."""

from ._run_state import FreshStart, LoadedStart, ResumedStart, RunState, find_starting_point
from ._session_init import SessionInit
from ._variable_differences import match_variables

__all__ = [
    "FreshStart",
    "LoadedStart",
    "ResumedStart",
    "RunState",
    "SessionInit",
    "find_starting_point",
    "match_variables",
]
