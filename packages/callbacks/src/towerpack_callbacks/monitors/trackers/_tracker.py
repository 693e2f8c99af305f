"""The base class of monitors for experiment trackers."""

from __future__ import annotations

import abc
import importlib
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from .._hparams import HParams, check_hparams
from .._media_summaries import histograms_of, images_of
from .._monitor import Monitor
from ..rows import Row, StepRow

__all__ = ["Tracker"]

_COUNTERS = ("epoch_num", "global_step")


class Tracker(Monitor):
    """Collects the statistics of a step in one message, and continues the same run after a restart.

    The checkpoint contains the run's identifier. The resumed run repeats the steps after the checkpoint, and
    sends their statistics again even if the killed run has already sent them.

    Args:
        client: name of the client module and of the extra that installs it.
        hparams: hyper-parameters of the run.

    Raises:
        ImportError: the client is not installed.
        TypeError: a hyper-parameter is not a string, number or truth value.
    """

    def __init__(self, client: str, extra: str, hparams: HParams | None) -> None:
        who = type(self).__name__
        try:
            self._client: Any = importlib.import_module(client)
        except ImportError as error:
            raise ImportError(
                f"{who} needs {client}, which is not installed: pip install 'towerpack-callbacks[{extra}]'."
            ) from error
        self._hparams = check_hparams(who, hparams)
        self._row = StepRow()
        self._run_id: str | None = None
        self._started = False

    # ---- overridden by subclasses

    @abc.abstractmethod
    def _start(self, run_id: str | None) -> str:
        """Starts a run, or continues the run with the given identifier; returns the identifier."""

    @abc.abstractmethod
    def _log_row(self, row: dict[str, float], global_step: int, epoch_num: int) -> None:
        """Sends the statistics of one step."""

    @abc.abstractmethod
    def _log_image(self, tag: str, encoded: bytes, global_step: int) -> None:
        """Sends a PNG."""

    def _log_histogram(self, tag: str, counts: np.ndarray, edges: np.ndarray, global_step: int) -> None:
        """Sends a histogram of n counts and n + 1 edges."""

    @abc.abstractmethod
    def _end(self) -> None:
        """Ends the run after all data are sent or stored."""

    # ---- called by the loop

    def _setup_graph(self) -> None:
        self._row, self._run_id, self._started = StepRow(), None, False

    def _before_train(self) -> None:
        self._open()

    def _open(self) -> None:
        # At first use: a callback may put statistics in its _before_train, before ours runs.
        if not self._started:
            self._run_id, self._started = self._start(self._run_id), True

    def process_scalar(self, name: str, value: float, global_step: int) -> None:
        self._open()
        self._send(self._row.add(name, value, self.epoch_num, global_step, self.env_steps))

    def process_summary(self, summary: tf.Summary, global_step: int) -> None:
        self._open()
        # Services expect steps in order.
        self._send(self._row.take_before(global_step))
        for tag, encoded in images_of(summary):
            self._log_image(tag, encoded, global_step)
        for tag, counts, edges in histograms_of(summary):
            self._log_histogram(tag, counts, edges, global_step)

    def _send(self, row: Row | None) -> None:
        if row is not None:
            values = {name: value for name, value in row.items() if name not in _COUNTERS}
            self._log_row(values, int(row["global_step"]), int(row["epoch_num"]))

    def _trigger(self) -> None:
        self._send(self._row.take())
        self.flush()

    def _after_train(self) -> None:
        if self._started:
            try:
                self._trigger()
            finally:
                self._started = False
                self._end()

    def state_dict(self) -> dict[str, Any]:
        self.flush()
        return {"run": self._run_id, **self._row.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._run_id = state["run"]
        self._row.load_state_dict(state)
