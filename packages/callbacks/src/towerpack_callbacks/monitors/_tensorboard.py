"""Writes statistics to TensorBoard event files."""

from __future__ import annotations

import time
from pathlib import Path
from typing import final

import tensorflow.compat.v1 as tf

from ._hparams import HParams, check_hparams, session_start_summary
from ._monitor import Monitor

__all__ = ["TFEventWriter"]


@final
class TFEventWriter(Monitor):
    """Writes scalars, images, histograms and the graph to `events.out.tfevents.*` in the log directory.

    TensorFlow's writer uses a separate thread, so the step loop does not wait for the disk. When a run
    resumes, the new file makes TensorBoard drop the data that the interrupted run wrote after the checkpoint.

    Args:
        flush_secs: the maximum time between two flushes, in seconds; also flushed after each epoch.
        hparams: the run's hyper-parameters, for the comparison of runs in TensorBoard's HParams tab.

    Raises:
        TypeError: a hyper-parameter is not a string, number or truth value.
    """

    def __init__(self, flush_secs: float = 120, hparams: HParams | None = None) -> None:
        self._flush_secs = flush_secs
        self._hparams = check_hparams("TFEventWriter", hparams)
        self._writer: tf.summary.FileWriter | None = None

    def _setup_graph(self) -> None:
        self._writer = None

    def _before_train(self) -> None:
        self._open()

    def _open(self) -> tf.summary.FileWriter:
        # At first use: a callback may put statistics in its _before_train, before ours runs.
        if self._writer is None:
            if self.global_step:
                _await_a_later_second(self._directory())
            # FileWriter cannot be created while eager execution is enabled.
            with self.graph.as_default():
                self._writer = tf.summary.FileWriter(str(self._directory()), flush_secs=self._flush_secs)
            # Only the graph: the meta graph that the constructor would add repeats it with all collections.
            self._writer.add_graph(self.graph)
            if self.global_step:
                # Makes TensorBoard drop the data of an interrupted run from that step on.
                start = tf.SessionLog(status=tf.SessionLog.START)
                self._writer.add_session_log(start, self.global_step + 1)
            if self._hparams:
                self._writer.add_summary(session_start_summary(self._hparams, time.time()), self.global_step)
        return self._writer

    def process_summary(self, summary: tf.Summary, global_step: int) -> None:
        rest = tf.Summary(value=[v for v in summary.value if not v.HasField("simple_value")])
        if rest.value:
            self._open().add_summary(rest, global_step)

    def process_scalar(self, name: str, value: float, global_step: int) -> None:
        summary = tf.Summary(value=[tf.Summary.Value(tag=name, simple_value=value)])
        self._open().add_summary(summary, global_step)

    def flush(self) -> None:
        """Waits until all data are in the event file."""
        if self._writer is not None:
            self._writer.flush()

    def _after_train(self) -> None:
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.close()


def _await_a_later_second(directory: Path) -> None:
    """Makes the next event file sort behind existing ones, since TensorBoard reads them by name.

    A name contains the second of the file's creation and then the process number, which may be lower than
    that of the interrupted process.
    """
    now = time.time()
    if any(directory.glob(f"events.out.tfevents.{int(now)}.*")):
        time.sleep(1 - now % 1)
