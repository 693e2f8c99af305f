"""Describes the actions of a list of callbacks before they run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow.compat.v1 as tf

from ..callback import Callback

__all__ = ["explain_callbacks"]


def explain_callbacks(callbacks: Iterable[Callback]) -> str:
    """Describes the actions and periods of callbacks, in the order they run; they must be set up.

    Args:
        callbacks: such as a `Callbacks` object.

    Returns:
        A line per callback, such as `3. MaxSaver('accuracy')`, with indented lines for its triggers, fetches,
        statistics and state. Lines with "every step" show the extra work of each step.
    """
    lines = []
    for number, callback in enumerate(callbacks, 1):
        lines.append(f"{number:3}. {callback}")
        lines += [f"       {fact}" for fact in _facts(callback)]
    return "\n".join(lines)


def _facts(callback: Callback) -> Iterable[str]:
    if callback.overrides("_before_run") or callback.overrides("_after_run"):
        yield "chooses fetches and feeds at every step (_before_run)"
    for fetch in callback.step_fetches():
        yield f"with the step, {fetch.every}: {_names(fetch.fetches)}"
    every = callback.step_period()
    if every is not None:
        yield f"triggered after the step, {every}"
    every = callback.epoch_period()
    if every is not None:
        yield f"triggered after {every}"
    for verb, statistics in (
        ("reads", callback.consumes()),
        ("puts, before any trigger,", callback.produces_in_run()),
        ("puts", callback.produces()),
    ):
        if statistics:
            yield f"{verb} {', '.join(statistics)}"
    if callback.overrides("state_dict"):
        yield "has a state in checkpoints"
    if callback.overrides("save_files"):
        yield "has files in checkpoints"


def _names(fetches: Any) -> str:
    return ", ".join(fetch if isinstance(fetch, str) else fetch.name for fetch in tf.nest.flatten(fetches))
