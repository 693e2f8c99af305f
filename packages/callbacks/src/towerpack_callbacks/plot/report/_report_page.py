"""Writes the report of a run: one self-contained page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..._errors import CheckpointError
from ...checkpoint.format import STATE, latest_checkpoint, read_json
from ...writing import ENVIRONMENT, EXPLANATION, LOG, RUN_RECORD, find_pictures
from .._chart_style import Style
from .._html_page import chart_content, write_page
from .._read_runs import Picture, Run, RunError, read_runs, select_keys
from ._event_images import find_event_images
from ._goodput import measure_goodput
from ._read_record import read_record
from ._report_sections import (
    data_position,
    folded,
    goodput_section,
    notes_section,
    resume_section,
    starts_section,
    state_section,
)

__all__ = ["write_report"]

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
    state = _state(checkpoint, notes)
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


def _state(checkpoint: Path | None, notes: list[str]) -> dict[str, Any]:
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
