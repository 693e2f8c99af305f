"""Writes one page about one run."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from .._errors import CheckpointError
from ..checkpoint.format import STATE, latest_checkpoint, read_json, shown_value
from ..writing import ENVIRONMENT, EXPLANATION, LOG, RUN_RECORD, find_pictures
from ._charts import Style, chart_content, write_page
from ._read_record import Goodput, RunInterval, RunSegment, find_event_images, measure_goodput, read_record
from ._read_runs import Picture, Run, RunError, read_runs, select_keys

__all__ = [
    "data_position",
    "folded",
    "goodput_section",
    "notes_section",
    "resume_section",
    "starts_section",
    "state_section",
    "write_report",
]


_LONGEST_VALUE = 300


def state_section(name: str, log_dir: Path, segments: Sequence[RunSegment]) -> str:
    """Shows the name and the state of the run."""
    return _section(
        f"<h1>{escape(name)}</h1><p>{escape(_state(segments))}</p>{_paragraph(log_dir.resolve())}", "wide"
    )


def _state(segments: Sequence[RunSegment]) -> str:
    if not segments:
        return "This run has no record of its starts."
    last, facts = segments[-1].events[-1], segments[-1].facts
    of = "" if facts.get("max_epoch") is None else f" of {facts['max_epoch']}"
    starts = "once" if len(segments) == 1 else f"{len(segments)} times"
    where = f"at step {last.step}, in epoch {last.epoch}{of}; started {starts}"
    if segments[-1].ended:
        reason = segments[-1].reason
        return f"Ended on {_date(last.time)} {where}{f'. {reason}' if reason else ''}."
    return f"Running or killed: its last event is of {_date(last.time)}, {where}."


def notes_section(notes: Sequence[str]) -> str:
    """Lists unreadable files; empty if all could be read."""
    items = "".join(f"<p>{escape(note)}</p>" for note in notes)
    return _section(f"<h2>Not readable</h2>{items}", "wide") if items else ""


def goodput_section(goodput: Goodput) -> str:
    """Shows the use of time, over all starts."""
    total = sum(goodput.seconds.values())
    if not total:
        return _section("<h2>Where the time went</h2><p>No time is recorded.</p>")
    bar, rows = "", ""
    for what, seconds in goodput.seconds.items():
        colour, share = what.split()[0], seconds / total
        bar += f'<span class="{colour}" style="width:{share:.3%}"></span>' if seconds else ""
        key = f'<span class="key {colour}"></span>{escape(what)}'
        rows += _row([key], [_duration(seconds), f"{share:.1%}"])
    table = f"<table>{rows}{_row(['all'], [_duration(total), '100.0%'])}</table>"
    goodput_line = f"<p>Goodput {goodput.share:.1%}: the fraction of time spent on training.</p>"
    head = f"<h2>Where the time went</h2>{goodput_line}"
    return _section(f'{head}<div class="bar">{bar}</div>{table}')


def starts_section(goodput: Goodput) -> str:
    """Shows the contribution of each start's process; empty without a record."""
    starts = "".join(_start_row(number, one) for number, one in enumerate(goodput.intervals, start=1))
    if not starts:
        return ""
    names = ["from", "steps", "kept", "trained", "waited", "saved", "lost"]
    heads = "".join(f'<th class="number">{name}</th>' for name in names)
    each = f'<div class="scroll"><table><tr><th>start</th>{heads}<th>end</th></tr>{starts}</table></div>'
    return _section(f"<h2>Starts</h2>{each}", "wide")


def _start_row(number: int, one: RunInterval) -> str:
    seconds = map(_duration, (one.training, one.waiting, one.saving, one.lost))
    cells = [_date(one.start), f"{one.first_step} to {one.last_step}", f"to {one.kept_step}", *seconds]
    return _row([str(number)], cells, [escape(one.reason or ("ended" if one.ended else "no end"))])


def _row(left: Sequence[str], numbers: Sequence[str], right: Sequence[str] = ()) -> str:
    """Returns a table row from cells of HTML."""
    cells = [f"<td>{cell}</td>" for cell in left]
    cells += [f'<td class="number">{cell}</td>' for cell in numbers]
    cells += [f"<td>{cell}</td>" for cell in right]
    return f"<tr>{''.join(cells)}</tr>"


def resume_section(checkpoint: Path | None, segments: Sequence[RunSegment]) -> str:
    """Shows the code that resumes the run."""
    if checkpoint is None:
        text = (
            "<p>There is no checkpoint, so the run starts from the beginning. <code>ModelSaver()</code> "
            "writes checkpoints.</p>"
        )
    else:
        argument = f'resume="auto"  # or resume={str(checkpoint.resolve())!r}'
        text = (
            "<p>Give <code>TrainConfig</code> this argument; a run without a checkpoint ignores it:</p>"
            f"<pre>{escape(argument)}</pre>"
        )
    command = _command(segments)
    if command is not None:
        text += f"<p>The command of the last start:</p><pre>{escape(command)}</pre>"
    return _section(f"<h2>How to resume</h2>{text}")


def _command(segments: Sequence[RunSegment]) -> str | None:
    facts: Mapping[str, Any] = segments[-1].facts if segments else {}
    command, cwd = facts.get("command"), facts.get("cwd")
    if not isinstance(command, list) or not isinstance(cwd, str):
        return None
    return f"cd {shlex.quote(cwd)} && {shlex.join(map(str, command))}"


def data_position(checkpoint: Path | None, state: Mapping[str, Any]) -> str:
    """Shows the counters and the position of the data in the newest checkpoint."""
    if checkpoint is None:
        return ""
    parts = {name: state[name] for name in ("loop", "input", "data") if isinstance(state.get(name), dict)}
    values = {f"{part}.{name}": value for part, its in parts.items() for name, value in _leaves(its)}
    rows = "".join(_row([escape(name), escape(_short(value))], []) for name, value in values.items())
    table = (
        f'<div class="scroll"><table>{rows}</table></div>' if rows else "<p>The position cannot be read.</p>"
    )
    return _section(f"<h2>Position of the data</h2>{_paragraph(checkpoint.name)}{table}", "wide")


def _leaves(values: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Lists the values of nested objects by dotted names."""
    found: list[tuple[str, Any]] = []
    for name, value in values.items():
        if isinstance(value, dict):
            found += [(f"{name}.{below}", leaf) for below, leaf in _leaves(value)]
        else:
            found.append((name, value))
    return found


def _short(value: Any) -> str:
    text = shown_value(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]} … ({len(text)} letters)"


def folded(title: str, text: str | None) -> str:
    """Shows a text that is collapsed initially."""
    body = "<p>Not recorded.</p>" if text is None else f"<pre>{escape(text)}</pre>"
    return _section(f"<details><summary>{escape(title)}</summary>{body}</details>", "wide")


def _section(html: str, kind: str = "") -> str:
    return f'<section class="{kind}">{html}</section>'


def _paragraph(text: object) -> str:
    return f'<p class="note">{escape(str(text))}</p>'


def _date(seconds: float) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
    except (OverflowError, ValueError, OSError):
        return f"{seconds:g} s"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes, hours = seconds / 60, seconds / 3600
    return f"{minutes:.1f} min" if minutes < 120 else f"{hours:.1f} h"


_LAST_LINES = 500


def write_report(log_dir: Path, path: Path, style: Style) -> list[str]:
    """Writes a page about one run, which may be running, killed or finished.

    Args:
        log_dir: the run's directory.
        path: the file to write; it is replaced when the page is complete.
        style: the initial options of the page.

    Returns:
        Notes on unreadable files; the page also contains them.

    Raises:
        RunError: the directory contains no run, or a file cannot be read.
    """
    misplaced = (log_dir / RUN_RECORD).is_dir()
    segments, unreadable = ([], 0) if misplaced else read_record(log_dir)
    run, notes = _statistics(log_dir)
    checkpoint = latest_checkpoint(log_dir)
    if not segments and not run.curves and checkpoint is None:
        raise RunError(
            f"{log_dir} contains no run: neither {RUN_RECORD} nor statistics nor a checkpoint; expected the "
            "log directory of a training"
        )
    if misplaced:
        notes.append(f"{log_dir / RUN_RECORD} is a directory")
    if unreadable:
        notes.append(f"{log_dir / RUN_RECORD}: {unreadable} lines are not events")
    state = _read_state(checkpoint, notes)
    saved = _number(state, "loop", "global_step")
    goodput = measure_goodput(segments, saved)
    above = [
        state_section(run.name, log_dir, segments),
        notes_section(notes),
        goodput_section(goodput),
        resume_section(checkpoint, segments),
        starts_section(goodput),
        data_position(checkpoint, state),
        *(folded("Traceback", one.traceback) for one in segments[-1:] if one.traceback),
        folded("Configuration of the training", _text(log_dir / EXPLANATION, notes)),
        folded("Environment", _text(log_dir / ENVIRONMENT, notes)),
        folded("Log", _text(log_dir / LOG, notes)),
    ]
    runs = [run]
    content = {"title": "Report", **chart_content(runs, select_keys(runs, []), style)}
    write_page(path, content, f'<div id="report">{"".join(above)}</div>')
    return notes


def _statistics(log_dir: Path) -> tuple[Run, list[str]]:
    """Returns the available curves and pictures, and notes on unreadable files."""
    if not log_dir.is_dir():
        raise RunError(f"there is no directory {log_dir}; expected the log directory of a training")
    notes: list[str] = []
    try:
        [run] = read_runs([log_dir])
        if run.unreadable:
            notes.append(f"{log_dir / 'stats.jsonl'}: {run.unreadable} lines are not statistics")
    except (RunError, OSError) as error:
        run = Run(log_dir.resolve().name, {}, 0)
        notes.append(str(error))
    pictures: dict[str, Sequence[tuple[int, Picture]]] = {**find_event_images(log_dir)}
    pictures |= find_pictures(log_dir)
    return Run(run.name, run.curves, run.unreadable, pictures), notes


def _read_state(checkpoint: Path | None, notes: list[str]) -> dict[str, Any]:
    if checkpoint is None:
        return {}
    try:
        return read_json(checkpoint / STATE)
    except CheckpointError as error:
        notes.append(str(error))
        return {}


def _number(state: Mapping[str, Any], part: str, name: str) -> int | None:
    values = state.get(part)
    value = values.get(name) if isinstance(values, dict) else None
    return value if isinstance(value, int) else None


def _text(path: Path, notes: list[str]) -> str | None:
    """Returns the end of a file; None if it does not exist."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return None
    except OSError as error:
        notes.append(f"{path} cannot be read: {error}")
        return None
    left_out = len(lines) - _LAST_LINES
    first = [f"({left_out} lines before these are in {path})"] if left_out > 0 else []
    return "\n".join([*first, *lines[-_LAST_LINES:]])
