"""`trace merge`: merges traces of trainings and flows."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..reports.trace import merge_traces, write_trace

__all__ = ["add_trace"]


def add_trace(commands: Any) -> None:
    """Adds the command to `ArgumentParser.add_subparsers()`."""
    parser = commands.add_parser(
        "trace",
        help="merge traces of one machine",
        description="Traces show the time spent in trainings and flows. Open them at ui.perfetto.dev.",
    )
    kinds = parser.add_subparsers(required=True, metavar="COMMAND")
    merge = kinds.add_parser(
        "merge",
        help="merge several traces into one",
        description="Merges traces that TrainConfig(trace=...), in each process of a training, and "
        "`python -m towerpack_dataflow bench --trace` have written on one host since its last boot.",
    )
    merge.add_argument("traces", nargs="+", type=Path, metavar="TRACE")
    merge.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="the file to write")
    merge.set_defaults(run=_merge)


def _merge(options: argparse.Namespace) -> int:
    """Writes the merged trace and prints a summary; a trace with another machine's clock is an error."""
    trace = merge_traces(options.traces)
    write_trace(options.output, trace)
    spans = [event for event in trace["traceEvents"] if event.get("ph") == "X"]
    processes = {span.get("pid") for span in spans}
    print(f"{len(spans)} spans of {len(processes)} processes: {options.output}, for ui.perfetto.dev")
    return 0
