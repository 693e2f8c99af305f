"""Records the starts, progress and ends of a run; the default monitors of a log directory."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import Any, final

import tensorflow.compat.v1 as tf

from .._errors import StopTraining
from ..writing import RUN_RECORD, RUN_RECORD_FORMAT, LineFile, atomic_write, cut_lines_after, prepare_lines
from ._console import LogFile
from ._monitor import Monitor
from ._row_files import JSONWriter
from ._tensorboard import TFEventWriter

__all__ = ["RunRecord", "file_monitors"]


_GRAPH = "graph.meta"
_LONGEST_REASON, _LONGEST_TRACEBACK = 1_000, 50_000  # characters
# Collections that TensorFlow can write and `tf.train.import_meta_graph` needs; others contain Python objects.
_COLLECTIONS = [
    tf.GraphKeys.GLOBAL_VARIABLES,
    tf.GraphKeys.LOCAL_VARIABLES,
    tf.GraphKeys.TRAINABLE_VARIABLES,
]


@final
class RunRecord(Monitor):
    """Appends the starts, progress and ends of a run to `run.jsonl`, and writes the graph to `graph.meta`.

    `python -m towerpack_callbacks report` computes the use of time from it. Each line is a JSON object with
    an `event`, "start", "progress" (after an epoch, and when a checkpoint is made) or "end"; the `time` in
    seconds since 1970; the counters `epoch` and `step`; and the seconds `spent` since the start
    (`LoopState.spent`). A start has the `format` of these lines and the command; an end has the `reason`,
    unless all epochs are done, and the `traceback` of an error. A resume removes no lines, so lost steps are
    also recorded. `tf.train.import_meta_graph` reads `graph.meta`.
    """

    def __init__(self) -> None:
        self._file: LineFile[dict[str, Any]] | None = None

    def _setup_graph(self) -> None:
        self._file = None

    def _before_train(self) -> None:
        path = self._directory() / RUN_RECORD
        prepare_lines(path)
        if path.exists():
            cut_lines_after(path, _is_whole)
        self._file = LineFile(path, json.dumps)
        loop = self.trainer.loop
        self._note(
            "start",
            format=RUN_RECORD_FORMAT,
            command=sys.orig_argv,
            cwd=os.getcwd(),
            host=socket.gethostname(),
            pid=os.getpid(),
            max_epoch=loop.max_epoch,
            steps_per_epoch=loop.steps_per_epoch,
        )
        _write_graph(self.graph, self._directory() / _GRAPH)

    def _note(self, event: str, **more: Any) -> None:
        if self._file is not None:
            loop = self.trainer.loop
            spent = {name: round(seconds, 3) for name, seconds in loop.spent.items()}
            counters = {"time": round(time.time(), 3), "epoch": loop.epoch_num, "step": loop.global_step}
            self._file.append([{"event": event, **counters, "spent": spent, **more}])
            self._file.close()

    def _trigger(self) -> None:
        self._note("progress")

    def state_dict(self) -> dict[str, Any]:
        self._note("progress")
        return {}

    def _after_train(self) -> None:
        self._note("end", **_reason(self.trainer.loop.ended_by))
        self._file = None


def _reason(ended_by: BaseException | None) -> dict[str, str]:
    """Returns the record of the end of a training."""
    if ended_by is None:
        return {}
    if isinstance(ended_by, StopTraining):
        return {"reason": str(ended_by)}
    whole = "".join(traceback.format_exception(ended_by))
    last = traceback.format_exception_only(ended_by)[0].strip()
    # Keep the end, which has the cause; in a recursion, the beginning is repetitive.
    return {"reason": last[:_LONGEST_REASON], "traceback": whole[-_LONGEST_TRACEBACK:]}


def _is_whole(line: bytes) -> bool:
    with contextlib.suppress(ValueError, RecursionError):
        return isinstance(json.loads(line), dict)
    return False


def _write_graph(graph: tf.Graph, path: Path) -> None:
    with graph.as_default():
        content = tf.train.export_meta_graph(graph=graph, collection_list=_COLLECTIONS)
    with atomic_write(path) as aside:
        aside.write_bytes(content.SerializeToString())


def file_monitors() -> list[Monitor]:
    """Returns the default monitors that write files to the log directory.

    They write event files for TensorBoard, statistics as JSON lines, a log of the console, and the record for
    reports. Each call makes new ones, since a monitor belongs to one run.

    Example:
        >>> print(*(type(monitor).__name__ for monitor in file_monitors()))
        TFEventWriter JSONWriter LogFile RunRecord
    """
    return [TFEventWriter(), JSONWriter(), LogFile(), RunRecord()]
