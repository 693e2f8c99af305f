"""Describes a training before it begins."""

from __future__ import annotations

from collections.abc import Sequence

from towerpack_callbacks import Callbacks, LoopState, explain_callbacks
from towerpack_inputsource import InputSource

__all__ = ["describe_training"]


def describe_training(
    trainer: str,
    devices: Sequence[str],
    loop: LoopState,
    source: InputSource | None,
    steps: str,
    callbacks: Callbacks,
) -> str:
    """Returns the text of `Trainer.explain()`.

    Args:
        trainer: the trainer's name.
        devices: the devices of its towers; empty: one, chosen by TensorFlow.
        loop: the counters.
        source: the input; None without one.
        steps: how steps are run, in whole lines; "" for one by one.
        callbacks: all callbacks, set up.
    """
    where = ", ".join(devices) or "one device"
    status = "none" if source is None else str(source.status())
    return (
        f"{trainer} on {where}, epochs {loop.starting_epoch} to {loop.max_epoch} "
        f"of {loop.steps_per_epoch} steps\n"
        f"input: {status}\n"
        f"{steps}"
        f"callbacks, in the order they run:\n{explain_callbacks(callbacks)}"
    )
