"""Monitors with Tensorpack's methods and files, and the default callbacks and monitors of a training."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import tensorflow.compat.v1 as tf

import towerpack_callbacks as callbacks

from ..._errors import NoCounterpartError
from ..._resolve import resolve
from ..utils import logger
from ._old_callback import Callback

__all__ = [
    "DEFAULT_CALLBACKS",
    "DEFAULT_MONITORS",
    "JSONWriter",
    "MonitorBase",
    "NoOpMonitor",
    "ScalarPrinter",
    "TFEventWriter",
]


class MonitorBase(callbacks.Monitor, Callback):
    """Receives statistics; override `process_scalar(name, val)` and others."""

    _chief_only = False

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Wraps `process_scalar(self, name, val)` to accept the step, which Towerpack passes, too."""
        super().__init_subclass__(**arguments)
        for method, count in {"process_scalar": 4, "process_summary": 3}.items():
            function = vars(cls).get(method)
            if function is not None and function.__code__.co_argcount < count:
                setattr(cls, method, _without_step(function))

    def process_event(self, evt: tf.Event) -> None:
        """Receives an event of `put_event`."""

    def process_image(self, name: str, val: Any) -> None:
        """Receives the images of `put_image`, an array of shape NHWC."""


def _put_event(self: callbacks.Monitors, evt: tf.Event) -> None:
    """Writes an event of TensorFlow, with the current step and time."""
    evt.step, evt.wall_time = self._loop.global_step, time.time()
    for monitor in self:
        if isinstance(monitor, callbacks.TFEventWriter):
            monitor._open().add_event(evt)
        elif isinstance(monitor, MonitorBase):
            monitor.process_event(evt)


def _put_image(self: callbacks.Monitors, name: str, val: Any) -> None:
    """Records images of shape HW, HWC, NHW or NHWC."""
    images = val[..., None] if val.ndim == 2 or (val.ndim == 3 and val.shape[2] > 4) else val
    images = images[None] if images.ndim == 3 else images
    for monitor in [each for each in self if isinstance(each, MonitorBase)]:
        monitor.process_image(name, images)
    _put_in_summary(self, name, images)


_put_in_summary = callbacks.Monitors.put_image
callbacks.Monitors.put_image = _put_image  # type: ignore[assignment, method-assign]
callbacks.Monitors.put_event = _put_event  # type: ignore[attr-defined]


def _without_step(function: Any) -> Any:
    return lambda self, *values: function(self, *values[: function.__code__.co_argcount - 1])


class NoOpMonitor(MonitorBase):
    """Records nothing.

    Args:
        name: the name of the monitor that it replaces.
    """

    def __init__(self, name: str | None = None) -> None:
        self._name = name

    def __str__(self) -> str:
        return f"NoOpMonitor({self._name or ''})"


def TFEventWriter(
    logdir: str | None = None, max_queue: int = 10, flush_secs: int = 120, split_files: bool = False
) -> Any:
    """Creates the monitor that writes events for TensorBoard to the logger's directory.

    Args:
        logdir: not supported; events go to the logger's directory.
        max_queue: no effect.
        flush_secs: the interval between two writes of the file, in seconds.
        split_files: no effect.
    """
    if logdir is not None:
        raise NoCounterpartError(
            f"TFEventWriter(logdir={logdir!r}) has no counterpart: events go to the logger's directory. "
            "Set it by logger.set_logger_dir."
        )
    if logger.get_logger_dir() is None:
        logger.warn("logger directory was not set. Ignore TFEventWriter.")
        return NoOpMonitor("TFEventWriter")
    return callbacks.TFEventWriter(flush_secs=flush_secs)


class JSONWriter(MonitorBase):
    """Writes all scalars to `stats.json` in the logger's directory, one dict for each step with scalars."""

    FILENAME = "stats.json"

    def __new__(cls) -> Any:
        if logger.get_logger_dir() is None:
            logger.warn("logger directory was not set. Ignore JSONWriter.")
            return NoOpMonitor("JSONWriter")
        return super().__new__(cls)

    @staticmethod
    def load_existing_json(dir: str | None = None) -> list[dict[str, Any]] | None:
        """Returns the statistics of a directory, by default the logger's; None without statistics."""
        path = os.path.join(dir or str(logger.directory()), JSONWriter.FILENAME)
        if not os.path.exists(path):
            return None
        with open(path) as file:
            return list(json.load(file))

    @staticmethod
    def load_existing_epoch_number(dir: str | None = None) -> int | None:
        """Returns the last epoch in the statistics of a directory; None without statistics."""
        stats = JSONWriter.load_existing_json(dir)
        return int(stats[-1]["epoch_num"]) if stats and "epoch_num" in stats[-1] else None

    def _setup_graph(self) -> None:
        self._stats: list[dict[str, Any]] = []
        self._stat_now: dict[str, Any] = {}

    def _before_train(self) -> None:
        self._path = os.path.join(str(logger.directory()), JSONWriter.FILENAME)
        stats = JSONWriter.load_existing_json()
        if stats is not None:
            epoch = JSONWriter.load_existing_epoch_number()
            if epoch is None or epoch + 1 == self.trainer.loop.starting_epoch:
                logger.info("Found existing JSON inside %s, will append to it.", logger.get_logger_dir())
                self._stats = stats
            else:
                aside = f"{self._path}.{datetime.now():%m%d-%H%M%S}"
                logger.warn("The existing JSON ends with epoch %d: it is moved to %s", epoch, aside)
                os.replace(self._path, aside)
        self._trigger()

    def process_scalar(self, name: str, val: float) -> None:  # type: ignore[override]
        self._stat_now[name] = float(val)

    def _trigger_step(self) -> None:
        if self.local_step != self.trainer.loop.steps_per_epoch - 1:
            self._trigger()

    def _trigger(self) -> None:
        if not self._stat_now:
            return
        self._stats.append({**self._stat_now, "epoch_num": self.epoch_num, "global_step": self.global_step})
        self._stat_now = {}
        with open(f"{self._path}.tmp", "w") as file:
            json.dump(self._stats, file)
        os.replace(f"{self._path}.tmp", self._path)


class ScalarPrinter(MonitorBase):
    """Logs scalars.

    Args:
        enable_step: whether to log after each step.
        enable_epoch: whether to log after each epoch.
        whitelist: regular expressions of the names to log; None: all.
        blacklist: regular expressions of the names to skip.
    """

    def __init__(
        self,
        enable_step: bool = False,
        enable_epoch: bool = True,
        whitelist: Sequence[str] | None = None,
        blacklist: Sequence[str] | None = None,
    ) -> None:
        self._white = None if whitelist is None else [re.compile(each) for each in whitelist]
        self._black = [re.compile(each) for each in blacklist or ()]
        self._enable_step, self._enable_epoch = enable_step, enable_epoch
        self._values: dict[str, float] = {}

    def _before_train(self) -> None:
        self._trigger()

    def _trigger_step(self) -> None:
        last = self.local_step == self.trainer.loop.steps_per_epoch - 1
        if self._enable_step and not (last and self._enable_epoch):
            self._trigger()

    def _trigger_epoch(self) -> None:
        if self._enable_epoch:
            self._trigger()

    def process_scalar(self, name: str, val: float) -> None:  # type: ignore[override]
        self._values[name] = float(val)

    def _trigger(self) -> None:
        for name, value in sorted(self._values.items()):
            wanted = self._white is None or any(pattern.search(name) for pattern in self._white)
            if wanted and not any(pattern.search(name) for pattern in self._black):
                logger.info("%s: %.5g", name, value)
        self._values = {}


def DEFAULT_CALLBACKS() -> list[Any]:
    """Returns the default callbacks, which run in addition to the user's."""
    names = ("MovingAverageSummary", "ProgressBar", "MergeAllSummaries", "RunUpdateOps")
    return [resolve(name)() for name in names]


def DEFAULT_MONITORS() -> list[Any]:
    """Returns the default monitors of a training."""
    return [TFEventWriter(), JSONWriter(), ScalarPrinter()]
