"""The files of a run's statistics: JSON lines, CSV, event files, and the record of its starts and ends."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import numbers
import os
import socket
import sys
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeAlias, final

import tensorflow.compat.v1 as tf

from .._errors import StopTraining
from ..writing._atomic_write import atomic_write
from ..writing._line_file import (
    RUN_RECORD,
    RUN_RECORD_FORMAT,
    BackgroundWriter,
    Batches,
    LineFile,
    cut_lines_after,
    prepare_lines,
)
from ..writing._protobuf_fields import encode_bytes, encode_double, encode_text
from ._console import LogFile
from ._monitors import COUNTERS, Monitor, Row, StepRow

__all__ = [
    "CSVWriter",
    "HParams",
    "JSONWriter",
    "RowFile",
    "RowWriter",
    "RunRecord",
    "TFEventWriter",
    "check_hparams",
    "file_monitors",
    "session_start_summary",
]


class RowFile(Protocol):
    """A file of rows."""

    def append(self, rows: list[Row]) -> None:
        """Appends rows."""

    def close(self) -> None:
        """Closes the descriptor; the next `append` reopens the file."""


class RowWriter(Monitor):
    """Collects statistics in rows, and writes the rows of finished steps in a thread.

    Args:
        filename: name of the file in the log directory.
    """

    def __init__(self, filename: str) -> None:
        self._filename = filename
        self._row = StepRow()
        self._writer = BackgroundWriter(f"{type(self).__name__}({filename})")
        self._rows: Batches[Row] = Batches(self._writer, self._append)
        self._file: RowFile | None = None

    def _file_up_to(self, path: Path, last_step: int) -> RowFile:
        """Opens the file and removes rows after `last_step` and a row truncated by a crash."""
        raise NotImplementedError

    def _setup_graph(self) -> None:
        self._file, self._row = None, StepRow()

    def _before_train(self) -> None:
        self._open()

    def _open(self) -> RowFile:
        # At first use: a callback may put statistics in its _before_train, before ours runs.
        if self._file is None:
            last = self._row.last_recorded_step(self.global_step)
            self._file = self._file_up_to(self._directory() / self._filename, last)
        return self._file

    def process_scalar(self, name: str, value: float, global_step: int) -> None:
        self._open()
        self._write(self._row.add(name, value, self.epoch_num, global_step, self.env_steps))

    def _write(self, row: Row | None) -> None:
        if row is not None:
            self._open()
            self._rows.put(row)

    def _append(self, rows: list[Row]) -> None:
        self._open().append(rows)

    def flush(self) -> None:
        """Waits until the rows of finished steps are in the file."""
        if self._file is not None:
            self._writer.submit(self._file.close)
        self._writer.flush()

    def _trigger(self) -> None:
        self._write(self._row.take())
        self.flush()

    def _after_train(self) -> None:
        try:
            self._trigger()
        finally:
            self._writer.close()

    def state_dict(self) -> dict[str, Any]:
        self.flush()
        return self._row.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._row.load_state_dict(state)


# Other counters become columns at their first value, like statistics.
_FIRST_COLUMNS = list(COUNTERS[:2])


@final
class CSVWriter(RowWriter):
    """Appends one row per step with statistics; a column for each name, in order of first appearance.

    A statistic that appears later adds a column on the right: the file is rewritten to a temporary name and
    replaced atomically, so a reader sees either the old or the new table. Columns are never moved or removed.
    A cell is empty if the step did not put the statistic; non-finite values are `nan`, `inf` and `-inf`, the
    spelling of Python, NumPy and pandas. When a run resumes, rows of steps after its checkpoint are removed.

    Args:
        filename: name of the file in the log directory.

    Example:
        >>> from towerpack_callbacks import ScalarPrinter, as_session_hooks
        >>> monitors = [CSVWriter(), ScalarPrinter()]
        >>> hooks = as_session_hooks([], steps_per_epoch=100, log_dir="train_log/table", monitors=monitors)
    """

    def __init__(self, filename: str = "stats.csv") -> None:
        super().__init__(filename)

    def _file_up_to(self, path: Path, last_step: int) -> RowFile:
        table = _Table(path)
        table.drop_after(last_step)
        return table


@final
class _Table:
    """A file of rows with a heading, which can add columns on the right."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = LineFile(path, _line)
        self._columns: list[str] = []

    def append(self, rows: Sequence[Row]) -> None:
        new = dict.fromkeys(name for row in rows for name in row if name not in self._columns)
        if new:
            self._widen(list(new))
        self._file.append([_cell(row.get(name)) for name in self._columns] for row in rows)

    def close(self) -> None:
        self._file.close()

    def _widen(self, new: Sequence[str]) -> None:
        self._file.close()
        columns, rows = self._read()
        columns = [*columns, *new] if columns else [*_FIRST_COLUMNS, *new[len(_FIRST_COLUMNS) :]]
        self._replace(columns, rows)

    def drop_after(self, last_step: int) -> None:
        """Keeps rows up to a step; removes invalid lines, such as one truncated by a crash."""
        prepare_lines(self._path)
        if self._path.exists():
            columns, rows = self._read()
            self._replace(columns, [row for row in rows if int(row[1]) <= last_step])

    def _read(self) -> tuple[list[str], list[list[str]]]:
        if not self._path.exists():
            return [], []
        with self._path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
            # Only a line with a line end is complete. Python 3.10 refuses NUL, which a crash may leave.
            lines = csv.reader(line for line in file if line.endswith("\n") and "\0" not in line)
            columns = next(lines, [])
            if columns and columns[:2] != _FIRST_COLUMNS:
                raise ValueError(
                    f"{self._path} is not a table of statistics: its first columns are {columns[:2]}, "
                    f"expected {_FIRST_COLUMNS}. Move it, or give CSVWriter(filename=...) another name."
                )
            return columns, [row for row in lines if len(row) == len(columns) and _is_row(row)]

    def _replace(self, columns: list[str], rows: Iterable[list[str]]) -> None:
        with (
            atomic_write(self._path, durable=True) as aside,
            aside.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file,
        ):
            if columns:
                file.write(_line(columns) + "\n")
            file.writelines(_line(row + [""] * (len(columns) - len(row))) + "\n" for row in rows)
        self._columns = columns


def _is_row(cells: Sequence[str]) -> bool:
    return cells[1].isdecimal() and all(map(str.isascii, cells))


def _cell(value: float | int | None) -> str:
    return "" if value is None else repr(value)


def _line(cells: Sequence[str]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="").writerow(cells)
    return buffer.getvalue()


@final
class JSONWriter(RowWriter):
    """Appends one line `{"epoch_num": …, "global_step": …, name: value, …}` per step with statistics.

    In the training of an agent, the line has `"env_steps"` behind `"global_step"`. A thread writes each line
    as soon as its step is over. When a run resumes, it first removes the lines of steps after its checkpoint,
    since those steps will run again. So the file contains each step once, even if the run was killed several
    times. Values that JSON cannot express are written as the strings "NaN", "Infinity", "-Infinity".

    Args:
        filename: name of the file in the log directory.

    Example:
        >>> from towerpack_callbacks import ScalarPrinter, as_session_hooks
        >>> monitors = [JSONWriter(), ScalarPrinter()]
        >>> hooks = as_session_hooks([], steps_per_epoch=100, log_dir="train_log/lines", monitors=monitors)
    """

    def __init__(self, filename: str = "stats.jsonl") -> None:
        super().__init__(filename)

    def _file_up_to(self, path: Path, last_step: int) -> RowFile:
        prepare_lines(path)
        if path.exists():
            cut_lines_after(path, partial(_is_up_to, last_step))
        return LineFile(path, _encode)


def _encode(row: Row) -> str:
    return json.dumps({name: value if math.isfinite(value) else _spell(value) for name, value in row.items()})


def _spell(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _is_up_to(last_step: int, line: bytes) -> bool:
    try:
        return int(json.loads(line)["global_step"]) <= last_step
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return False  # truncated by a crash; its step runs again


HParams: TypeAlias = Mapping[str, bool | int | float | str]

_START_TAG = "_hparams_/session_start_info"


def check_hparams(who: str, hparams: HParams | None) -> dict[str, bool | int | float | str]:
    """Checks the hyper-parameters of a monitor and returns a copy.

    Raises:
        TypeError: `hparams` is not a mapping from names to numbers, strings and truth values.
    """
    if hparams is None:
        return {}
    if not isinstance(hparams, Mapping):
        raise TypeError(f"{who}(hparams={hparams!r}): expected a dict of names and values.")
    for name, value in hparams.items():
        if not isinstance(name, str) or not isinstance(value, (bool, str, numbers.Real)):
            raise TypeError(
                f"{who}(hparams=...): {name!r} is {value!r} of type {type(value).__name__}; expected a "
                "string, a number or a truth value. Write others as strings."
            )
    return dict(hparams)


def session_start_summary(hparams: HParams, start_time: float) -> tf.Summary:
    """Makes the summary of a run's hyper-parameters.

    Args:
        hparams: names and values.
        start_time: the start of the run, in seconds since 1970.
    """
    start = b"".join(
        encode_bytes(1, encode_text(1, name) + encode_bytes(2, _value(value)))
        for name, value in hparams.items()
    )
    content = encode_bytes(3, start + encode_double(5, start_time))
    metadata = tf.SummaryMetadata(
        plugin_data=tf.SummaryMetadata.PluginData(plugin_name="hparams", content=content)
    )
    # The tab needs a tensor; its value does not matter.
    value = tf.Summary.Value(tag=_START_TAG, metadata=metadata, tensor=tf.make_tensor_proto(0.0))
    return tf.Summary(value=[value])


def _value(value: Any) -> bytes:
    """Encodes a `google.protobuf.Value`."""
    if isinstance(value, bool):
        return bytes([4 << 3, value])
    return encode_text(3, value) if isinstance(value, str) else encode_double(2, value)


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

    Example:
        >>> from towerpack_callbacks import ScalarPrinter, as_session_hooks
        >>> monitors = [TFEventWriter(hparams={"rate": 0.1, "batch": 32}), ScalarPrinter()]
        >>> hooks = as_session_hooks([], steps_per_epoch=100, log_dir="train_log/events", monitors=monitors)
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

    `python -m towerpack_callbacks plot` computes the use of time from it. Each line is a JSON object with
    an `event`, "start", "progress" (after an epoch, and when a checkpoint is made) or "end"; the `time` in
    seconds since 1970; the counters `epoch` and `step`; and the seconds `spent` since the start
    (`LoopState.spent`). A start has the `format` of these lines and the command; an end has the `reason`,
    unless all epochs are done, and the `traceback` of an error. A resume removes no lines, so lost steps are
    also recorded. `tf.train.import_meta_graph` reads `graph.meta`.

    Example:
        >>> from towerpack_callbacks import JSONWriter, as_session_hooks
        >>> monitors = [JSONWriter(), RunRecord()]
        >>> hooks = as_session_hooks([], steps_per_epoch=100, log_dir="train_log/record", monitors=monitors)
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
