"""Writes one page about one or more runs."""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from pathlib import Path

import numpy as np

from ..checkpoint.format import shown_value
from ..writing._atomic_write import atomic_write
from ..writing._line_file import ENVIRONMENT, EXPLANATION, LOG
from ._charts import Style, chart_content
from ._read_record import Goodput, RunInterval, measure_goodput
from ._read_runs import Curve, Run

__all__ = ["report_page", "write_report"]


def write_report(runs: Sequence[Run], keys: Sequence[str], path: Path, style: Style) -> None:
    """Writes a page with the curves, pictures, settings and records of runs.

    The page has values on hover, smoothing, scale and a choice of steps. If there are many pictures, some are
    left out, but never the last.

    Args:
        runs: the runs.
        keys: names of the statistics and pictures in display order, pictures last.
        path: the file to write; it is replaced when the page is complete.
        style: the initial options of the page.
    """
    with atomic_write(path) as aside:
        aside.write_text(report_page(runs, keys, style), encoding="utf-8", errors="replace")


def report_page(runs: Sequence[Run], keys: Sequence[str], style: Style, stamp: str | None = None) -> str:
    """Returns the page of `write_report`.

    Args:
        runs, keys, style: as in `write_report`.
        stamp: the state of the files; the page then asks its server for the page of other states.
    """
    content = {**chart_content(runs, keys, style), "stamp": stamp}
    parts = {
        "TITLE": escape(", ".join(run.name for run in runs)),
        "HEAD": _head(runs, content["keys"]) + _notes(runs),
        "BELOW": _settings_section(runs) + _internals(runs),
        # A name with "</script>" or "<!--" would end or change the script; no other JSON contains "<".
        "DATA": json.dumps(content, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"),
    }
    page = resources.files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    for name, part in parts.items():
        page = page.replace(f"<!--{name}-->", part)  # the parts contain no "<!--"
    return page


_MOST_METRICS = 6
_LOWER = {"cost", "loss", "error", "err", "perplexity", "nll", "mse", "mae", "rmse", "fid", "distance"}
_HIGHER = {"accuracy", "acc", "score", "return", "reward", "precision", "recall", "f1", "auc", "iou", "map"}
_HIGHER |= {"psnr", "ssim", "bleu", "coverage"}
_EVALUATED = {"validation", "valid", "val", "evaluation", "eval", "test"}  # shown first


def _head(runs: Sequence[Run], keys: Sequence[str]) -> str:
    """Shows states, last and best metrics, and how to resume a single run."""
    better = {key: _better(key, runs) for key in keys}
    known = [key for key in keys if better[key]] or keys
    metrics = sorted(known, key=lambda key: not _words(key) & _EVALUATED)[:_MOST_METRICS]
    rows = [
        [_cell(head, "th") for head in ("run", "state")] + [_cell(key, "th", "number") for key in metrics]
    ]
    for run in runs:
        cells = [_metric(run.curves.get(key), better[key]) for key in metrics]
        rows.append([_cell(run.name), _cell(_state(run), kind="text"), *cells])
    if len(runs) > 1:
        return _section(f"<h1>{len(runs)} runs</h1>{_table(rows)}")
    [run] = runs
    table = _table(row[1:] for row in rows)
    return _section(f"<h1>{escape(run.name)}</h1>{_note(run.path.resolve())}{table}{_resume(run)}")


def _better(key: str, runs: Sequence[Run]) -> str:
    """Returns "Max" or "Min", from the savers of the best checkpoints or the name; empty if unknown."""
    for run in runs:
        savers = run.state.get("callbacks")
        for kind in ("Max", "Min"):
            if isinstance(savers, dict) and f"{kind}Saver({key!r})" in savers:
                return kind
    return "Min" if _words(key) & _LOWER else "Max" if _words(key) & _HIGHER else ""


def _words(key: str) -> set[str]:
    return set(re.split("[^a-z0-9]+", key.lower()))


def _metric(curve: Curve | None, better: str) -> str:
    if curve is None:
        return _cell("", kind="number")
    shown = f"<b>{curve.values[-1]:.5g}</b>"
    finite = np.flatnonzero(np.isfinite(curve.values))
    if better and finite.size:
        values = curve.values[finite]
        best = finite[values.argmax() if better == "Max" else values.argmin()]
        shown += _note(f"best {curve.values[best]:.5g} at step {curve.steps[best]}")
    return f'<td class="number">{shown}</td>'


def _state(run: Run) -> str:
    if not run.segments:
        begun = run.curves or run.checkpoint
        return "This run has no record of its starts." if begun else "No run yet."
    last, facts = run.segments[-1].events[-1], run.segments[-1].facts
    of = "" if facts.get("max_epoch") is None else f" of {facts['max_epoch']}"
    starts = "once" if len(run.segments) == 1 else f"{len(run.segments)} times"
    where = f"at step {last.step}, in epoch {last.epoch}{of}; started {starts}"
    if run.segments[-1].ended:
        reason = run.segments[-1].reason
        return f"Ended on {_date(last.time)} {where}{f'. {reason}' if reason else ''}."
    return f"Running or killed: its last event is of {_date(last.time)}, {where}."


def _resume(run: Run) -> str:
    """Shows the code that resumes the run."""
    if run.checkpoint is None:
        return "<p>There is no checkpoint to resume from; <code>ModelSaver()</code> writes checkpoints.</p>"
    lines = [f'TrainConfig(..., resume="auto")  # or resume={str(run.checkpoint.resolve())!r}']
    facts = run.segments[-1].facts if run.segments else {}
    command, cwd = facts.get("command"), facts.get("cwd")
    if isinstance(command, list) and isinstance(cwd, str):
        lines.append(f"cd {shlex.quote(cwd)} && {shlex.join(map(str, command))}")
    title = "To resume, set this argument, and run the command of the last start again:"
    return f"<p>{title}</p><pre>{escape(chr(10).join(lines))}</pre>"


def _notes(runs: Sequence[Run]) -> str:
    items = "".join(f"<p>{escape(note)}</p>" for run in runs for note in run.notes)
    return _section(f"<h2>Notes</h2>{items}") if items else ""


def _settings_section(runs: Sequence[Run]) -> str:
    """Shows the settings that differ between runs; empty for a single run."""
    settings = [_settings(run) for run in runs]
    names = dict.fromkeys(name for found in settings for name in found)
    rows = [
        [_cell(name), *(_cell(found.get(name, ""), kind="text") for found in settings)]
        for name in names
        if len({found.get(name) for found in settings}) > 1
    ]
    heads = [_cell("setting", "th"), *(_cell(run.name, "th") for run in runs)]
    table = _table([heads, *rows]) if rows else "<p>No recorded setting differs.</p>"
    return _section(f"<h2>Different settings</h2>{table}") if len(runs) > 1 else ""


def _settings(run: Run) -> dict[str, str]:
    """Returns hyper-parameters, options of the command, sizes, callbacks and versions, by name."""
    found = dict(run.hparams)
    facts = run.segments[-1].facts if run.segments else {}
    command = facts.get("command")
    if isinstance(command, list):
        found |= _options([str(word) for word in command])
    found |= {name: str(facts[name]) for name in ("max_epoch", "steps_per_epoch", "host") if name in facts}
    for line in run.texts.get(EXPLANATION, "").splitlines():
        callback = re.fullmatch(r" *\d+\. (.*)", line)
        if callback:
            found[f"callback {callback[1]}"] = "yes"
        elif not line.startswith(" "):
            name, _, value = line.rpartition(": ")
            found.setdefault(name or "trainer", value)  # the first line describes the trainer
    for line in run.texts.get(ENVIRONMENT, "").splitlines():
        name, _, value = line.partition("  ")
        found[name] = value.strip()
    return found


def _options(command: Sequence[str]) -> dict[str, str]:
    """Returns `--name value` and `--name=value` of a command by name, and the other words as "command"."""
    found, others = {}, []
    words = iter(command)
    name = ""
    for word in words:
        if word.startswith("--"):
            name, equal, value = word.partition("=")
            found[name] = value if equal else "yes"
            name = "" if equal else name
        elif name:
            found[name], name = word, ""
        else:
            others.append(word)
    return {"command": shlex.join(others), **found}


def _internals(runs: Sequence[Run]) -> str:
    """Shows time, state, configuration and log of each run, folded."""
    return "".join(
        _internals_of(run) if len(runs) == 1 else _folded(run.name, f"{_resume(run)}{_internals_of(run)}")
        for run in runs
    )


def _internals_of(run: Run) -> str:
    loop = run.state.get("loop")
    step = loop.get("global_step") if isinstance(loop, dict) else None
    goodput = measure_goodput(run.segments, step if isinstance(step, int) else None)
    traceback = run.segments[-1].traceback if run.segments else ""
    texts = {
        "Traceback": traceback,
        "Configuration of the training": run.texts.get(EXPLANATION),
        "Position of the data": _position(run),
        "Environment": run.texts.get(ENVIRONMENT),
        "Log": run.texts.get(LOG),
    }
    parts = {
        "Where the time went": _goodput(goodput),
        "Starts": _starts(goodput),
        **{title: f"<pre>{escape(text)}</pre>" for title, text in texts.items() if text},
    }
    return "".join(_folded(title, html, run.name) for title, html in parts.items() if html)


def _goodput(goodput: Goodput) -> str:
    """Shows the use of time, over all starts; empty without a record."""
    total = sum(goodput.seconds.values())
    if not total:
        return ""
    bar, rows = "", []
    for what, seconds in goodput.seconds.items():
        colour, share = what.split()[0], seconds / total
        bar += f'<span class="{colour}" style="width:{share:.3%}"></span>' if seconds else ""
        key = f'<td><span class="key {colour}"></span>{escape(what)}</td>'
        rows.append([key, *_numbers([_duration(seconds), f"{share:.1%}"])])
    rows.append([_cell("all"), *_numbers([_duration(total), "100.0%"])])
    line = f"<p>Goodput {goodput.share:.1%}: the fraction of time spent on training.</p>"
    return f'{line}<div class="bar">{bar}</div>{_table(rows)}'


def _starts(goodput: Goodput) -> str:
    """Shows the contribution of each start's process; empty without a record."""
    names = ["from", "steps", "kept", "trained", "waited", "saved", "lost"]
    heads = [_cell("start", "th"), *(_cell(name, "th", "number") for name in names), _cell("end", "th")]
    rows = [_start_row(number, one) for number, one in enumerate(goodput.intervals, start=1)]
    return _table([heads, *rows]) if rows else ""


def _start_row(number: int, one: RunInterval) -> list[str]:
    seconds = map(_duration, (one.training, one.waiting, one.saving, one.lost))
    cells = [_date(one.start), f"{one.first_step} to {one.last_step}", f"to {one.kept_step}", *seconds]
    return [_cell(str(number)), *_numbers(cells), _cell(one.reason or ("ended" if one.ended else "no end"))]


def _position(run: Run) -> str:
    """Returns the counters and the position of the data in the newest checkpoint, a line for each."""
    parts = {part: run.state.get(part) for part in ("loop", "input", "data")}
    leaves = [
        f"{part}.{name}: {shown_value(value)}"
        for part, values in parts.items()
        if isinstance(values, dict)
        for name, value in values.items()
    ]
    return "\n".join(leaves)


def _section(html: str) -> str:
    return f"<section>{html}</section>"


def _folded(title: str, html: str, of: str = "") -> str:
    """Returns a part that is collapsed initially; a renewed page keeps it as it is."""
    name = escape(f"{of}/{title}")
    return _section(f'<details data-name="{name}"><summary>{escape(title)}</summary>{html}</details>')


def _note(text: object) -> str:
    return f'<p class="note">{escape(str(text))}</p>'


def _table(rows: Iterable[Sequence[str]]) -> str:
    lines = "".join(f"<tr>{''.join(cells)}</tr>" for cells in rows)
    return f'<div class="scroll"><table>{lines}</table></div>'


def _cell(text: str, tag: str = "td", kind: str = "") -> str:
    return f'<{tag} class="{kind}">{escape(text)}</{tag}>'


def _numbers(texts: Iterable[str]) -> list[str]:
    return [_cell(text, kind="number") for text in texts]


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
