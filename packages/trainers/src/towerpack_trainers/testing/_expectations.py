"""The expectations of the kit, and its error messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

__all__ = ["EPOCHS", "STEPS", "ConformanceError", "difference", "expect", "expect_calls"]

STEPS, EPOCHS = 6, 2

Call = tuple[str, int, int | None, int]
"""An entry of `Recorder.calls`; a `local_step` of None matches any: it is undefined outside of steps."""


class ConformanceError(AssertionError):
    """A trainer failed a check; the message describes the expected and the received behaviour."""


def expect(condition: bool, message: str) -> None:
    """Raises an error unless a condition holds.

    Raises:
        ConformanceError: the condition does not hold.
    """
    if not condition:
        raise ConformanceError(f"{message}.")


def expect_calls(calls: Sequence[Call], when: str, done: int = 0) -> None:
    """Checks the calls of callbacks and their counters against the loop shown in `Callback`.

    Args:
        calls: the calls of a `Recorder`.
        when: the description of the training, for the message.
        done: the number of finished steps at the beginning of the training.

    Raises:
        ConformanceError: a call is missing, superfluous, or has other counters; the message names the first
            one.
    """
    expected = _expected_calls(done)
    for number, wanted in enumerate(expected):
        received = calls[number] if number < len(calls) else None
        if received is not None and wanted[2] is None:
            received = (*received[:2], None, received[3])
        expect(
            received == wanted,
            f"{when}, expected call {number} of a callback to be {_describe(wanted)}, received "
            f"{'no call' if received is None else _describe(received)}",
        )
    expect(
        len(calls) == len(expected),
        f"{when}, expected {len(expected)} calls of a callback, received {len(calls)}",
    )


def _expected_calls(done: int) -> list[Call]:
    """Returns the calls of a whole training that begins after `done` steps, as shown in `Callback`."""
    epochs = range(done // STEPS + 1, EPOCHS + 1)
    calls: list[Call] = [("before_train", epochs[0] - 1, None, done)]
    for epoch in epochs:
        calls.append(("before_epoch", epoch, None, done))
        for local_step in range(done % STEPS, STEPS):
            done += 1
            calls.append(("trigger_step", epoch, local_step, done))
        calls += [("after_epoch", epoch, STEPS - 1, done), ("trigger_epoch", epoch, STEPS - 1, done)]
    return [*calls, ("after_train", EPOCHS, STEPS - 1, done)]


def _describe(call: Call) -> str:
    what, epoch, local_step, global_step = call
    local = "" if local_step is None else f", local_step {local_step}"
    return f"{what} in epoch {epoch}{local}, global_step {global_step}"


def difference(values: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> str | None:
    """Describes the first variable with any different bit; None if all are equal."""
    if values.keys() != expected.keys():
        return f"there are other variables: {sorted(values.keys() ^ expected.keys())}"
    for name, value in expected.items():
        if not np.array_equal(value, values[name]):
            away = np.abs(np.subtract(values[name], value, dtype=np.float64)).max()
            return f"variable {name!r} differs by up to {away:g}"
    return None
