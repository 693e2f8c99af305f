"""The initial values of a run, and the contents of its checkpoints."""

from ._run_state import (
    FreshStart,
    LoadedStart,
    ResumedStart,
    RunState,
    StartingPoint,
    check_resume_allow,
    find_starting_point,
)
from ._session_init import DictRestore, SaverRestore, SessionInit, SmartInit
from ._variable_differences import match_variables

__all__ = [
    "DictRestore",
    "FreshStart",
    "LoadedStart",
    "ResumedStart",
    "RunState",
    "SaverRestore",
    "SessionInit",
    "SmartInit",
    "StartingPoint",
    "check_resume_allow",
    "find_starting_point",
    "match_variables",
]
