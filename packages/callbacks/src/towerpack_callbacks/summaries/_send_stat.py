"""Passes statistics to a shell command."""

from __future__ import annotations

import logging
import string
import subprocess
from collections.abc import Sequence
from typing import final

from ..callback import Callback

__all__ = ["SendStat"]

_log = logging.getLogger("towerpack_callbacks")

_PATIENCE_SECONDS = 30


@final
class SendStat(Callback):
    """Runs a shell command with the latest values of statistics, at each trigger.

    The training waits for the command, up to 30 seconds. A failing command is logged, and training continues.

    Args:
        command: the command, with a `str.format` placeholder for each value: "{validation_error:.3f}".
        names: one or more names of statistics; their producers must come before.

    Raises:
        ValueError: the command has a placeholder for a statistic that is not among the names.

    Example:
        ```python
        SendStat("curl -s -d 'error={validation_error:.4f}' https://example.org/runs/7", "validation_error")
        ```
    """

    def __init__(self, command: str, names: str | Sequence[str]) -> None:
        self._command = command
        self._names = [names] if isinstance(names, str) else list(names)
        places = {place for _, place, _, _ in string.Formatter().parse(command) if place is not None}
        unknown = sorted(places - set(self._names))
        if unknown:
            raise ValueError(
                f"SendStat: the command has a placeholder for {unknown[0]!r}, but the names are "
                f"{self._names}. Add it to the names; write a literal brace twice."
            )

    def consumes(self) -> Sequence[str]:
        return self._names

    def _trigger(self) -> None:
        monitors = self.trainer.monitors
        if not all(name in monitors for name in self._names):
            return  # a statistic with a longer period than ours has no value yet
        command = self._command.format(**{name: monitors.get_latest(name) for name in self._names})
        try:
            done = subprocess.run(
                command, shell=True, timeout=_PATIENCE_SECONDS, capture_output=True, text=True, check=False
            )
        except subprocess.TimeoutExpired:
            _log.warning("SendStat: %r took longer than %d s; ended.", command, _PATIENCE_SECONDS)
            return
        if done.returncode:
            _log.warning(
                "SendStat: %r failed with code %d: %s", command, done.returncode, done.stderr.strip()
            )
