"""Where a run goes on: the checkpoint that it resumes, and what of it need not match."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from towerpack_callbacks import CheckpointError
from towerpack_callbacks.checkpoint import Checkpoint, latest_checkpoint, read_checkpoint

from ._variable_differences import VARIABLE_DIFFERENCES, check_allowed

__all__ = ["check_resume_allow", "check_state", "find_checkpoint", "is_in"]

_KINDS = (*VARIABLE_DIFFERENCES, "callbacks", "input")


def check_resume_allow(allow: Collection[str]) -> frozenset[str]:
    """Converts what `TrainConfig(resume_allow=…)` receives.

    Raises:
        ConfigError: it names something else than kinds of differences.
    """
    return check_allowed(allow, _KINDS, "resume_allow")


def find_checkpoint(resume: str | Path | None, log_dir: Path | None) -> Checkpoint | None:
    """Reads the checkpoint that `TrainConfig(resume=…)` means; None if the run starts from nothing.

    Raises:
        CheckpointError: it cannot be read.
    """
    if resume is None:
        return None
    if resume != "auto":
        return read_checkpoint(resume)
    assert log_dir is not None
    latest = latest_checkpoint(log_dir)
    return None if latest is None else read_checkpoint(latest)


def is_in(log_dir: Path, checkpoint: Checkpoint | None) -> bool:
    """Whether the checkpoint is of the run that is in `log_dir`."""
    return checkpoint is not None and checkpoint.path.resolve().is_relative_to(log_dir.resolve())


def check_state(checkpoint: Checkpoint) -> None:
    """Refuses a checkpoint that a training cannot go on from.

    Raises:
        CheckpointError: it holds variables only.
    """
    if not {"loop", "callbacks"} <= set(checkpoint.state):
        raise CheckpointError(
            f"{checkpoint.path} holds no state of a training, only variables. Start from those by "
            "session_init=SmartInit(path)."
        )
