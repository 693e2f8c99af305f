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

    TensorFlow's writer has a thread of its own, so the step loop does not wait for the disk. When a run
    resumes, the new file tells TensorBoard to drop what the interrupted run wrote after the checkpoint.

    Args:
        flush_secs: write out at least so often, in seconds; also after each epoch.
        hparams: the run's hyper-parameters, for TensorBoard's HParams tab, which compares runs by them.

    Raises:
        TypeError: a hyper-parameter is no string, number or truth value.
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
        # On first use: a callback may put statistics in its _before_train, ahead of ours.
        if self._writer is None:
            if self.global_step:
                _await_a_later_second(self._directory())
            # FileWriter refuses to be made where eager execution is on.
            with self.graph.as_default():
                self._writer = tf.summary.FileWriter(str(self._directory()), flush_secs=self._flush_secs)
            # The graph alone: the meta graph that the constructor would add repeats it with all collections.
            self._writer.add_graph(self.graph)
            if self.global_step:
                # Makes TensorBoard drop what an interrupted run wrote from that step on.
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
        """Waits until everything is in the event file."""
        if self._writer is not None:
            self._writer.flush()

    def _after_train(self) -> None:
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.close()


def _await_a_later_second(directory: Path) -> None:
    """Makes the next event file sort behind those that are there: TensorBoard reads them by name.

    A name has the second in which its file was begun and then the number of the process, which may be less
    than that of the interrupted one.
    """
    now = time.time()
    if any(directory.glob(f"events.out.tfevents.{int(now)}.*")):
        time.sleep(1 - now % 1)
