"""What the kit expects, and the sentences of what it received instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

__all__ = ["EPOCHS", "STEPS", "ConformanceError", "difference", "expect", "expect_calls"]

STEPS, EPOCHS = 6, 2

Call = tuple[str, int, int | None, int]
"""As `Recorder.calls` holds it; a `local_step` of None stands for any, as outside of steps there is none."""


class ConformanceError(AssertionError):
    """A trainer broke a promise; the message says which, what was expected and what was received."""


def expect(condition: bool, message: str) -> None:
    """Checks a promise.

    Raises:
        ConformanceError: the condition does not hold.
    """
    if not condition:
        raise ConformanceError(f"{message}.")


def expect_calls(calls: Sequence[Call], when: str, done: int = 0) -> None:
    """Checks that callbacks were called as `Callback` draws the loop, with the counters that belong there.

    Args:
        calls: those of a `Recorder`.
        when: in which training, for the message.
        done: how many steps were finished when the training began.

    Raises:
        ConformanceError: a call is missing, superfluous, or has other counters; the first one is named.
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
    """Returns the calls of a whole training that begins after some steps, as `Callback` draws the loop."""
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
    """Returns a sentence on the first variable that differs in one bit; None if there is none."""
    if values.keys() != expected.keys():
        return f"there are other variables: {sorted(values.keys() ^ expected.keys())}"
    for name, value in expected.items():
        if not np.array_equal(value, values[name]):
            away = np.abs(np.subtract(values[name], value, dtype=np.float64)).max()
            return f"variable {name!r} differs by up to {away:g}"
    return None
