"""The length of a training: as configured, or a few steps in a dry run."""

from __future__ import annotations

import contextlib
import os

from ._errors import CompatError

__all__ = ["EVALUATION_BATCHES", "dry_run_steps", "limits", "open_no_windows", "set_dry_run"]

EVALUATION_BATCHES = 2
_VARIABLE = "TOWERPACK_COMPAT_DRY_RUN"


def set_dry_run(steps: int) -> None:
    """Limits every training of this process and its child processes to one epoch of a few steps.

    Args:
        steps: the number of steps.
    """
    if steps < 1:
        raise CompatError(f"--dry-run takes a number of steps, at least 1; received {steps}.")
    os.environ[_VARIABLE] = str(steps)


def dry_run_steps() -> int | None:
    """Returns the limit of steps of a training; None without a limit."""
    steps = os.environ.get(_VARIABLE)
    return None if steps is None else int(steps)


def limits(steps_per_epoch: int, starting_epoch: int, max_epoch: int) -> tuple[int, int]:
    """Returns the number of steps of an epoch, and the last epoch."""
    steps = dry_run_steps()
    return (steps_per_epoch, max_epoch) if steps is None else (min(steps, steps_per_epoch), starting_epoch)


def open_no_windows() -> None:
    """Disables OpenCV's windows: a dry run has no user to close them, and a server has no screen."""
    with contextlib.suppress(ImportError):
        import cv2

        for name in ("imshow", "waitKey", "namedWindow", "setMouseCallback", "destroyWindow"):
            setattr(cv2, name, lambda *_arguments, **_named: -1)
