"""What several steps in one session call ask of everything that happens between steps."""

from __future__ import annotations

from towerpack_callbacks import Callbacks, LoopState

from .._errors import ConfigError

__all__ = ["check_periods", "check_position"]


def check_periods(times: int, callbacks: Callbacks, steps_per_epoch: int) -> None:
    """Checks that whatever is due is due at the end of a run.

    What is wanted at every step is given the last step of every run.

    Raises:
        ConfigError: a period, or the epoch, ends within a run.
    """
    if steps_per_epoch % times:
        raise ConfigError(
            f"steps_per_epoch={steps_per_epoch} is not a multiple of steps_per_run={times}, so an epoch "
            "would end within a session call. Change one of them."
        )
    for callback, every in callbacks.step_periods():
        if every.steps is not None and every.steps > 1 and every.steps % times:
            raise ConfigError(
                f"{callback} acts {every}, which is not a multiple of steps_per_run={times}, so it would be "
                "due within a session call. Change one of them."
            )


def check_position(times: int, loop: LoopState) -> None:
    """Checks that runs end where periods do, from where a resumed training starts.

    Raises:
        ConfigError: they would not.
    """
    if loop.global_step % times or loop.starting_step % times:
        raise ConfigError(
            f"The checkpoint was written after {loop.global_step} steps, {loop.starting_step} of them in its "
            f"last epoch, which is not a multiple of steps_per_run={times}. Resume with a number that "
            "divides both, or 1."
        )
