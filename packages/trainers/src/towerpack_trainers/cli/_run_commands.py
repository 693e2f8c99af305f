"""`env`, `launch`, `trace` and `migrate`: the commands without a model."""

from __future__ import annotations

import argparse
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..distributed import LaunchError, launch
from ..reports._describe_training import collect_env_info
from ..reports.trace import merge_traces, write_trace
from ._model_commands import TrainerCommandError

__all__ = ["add_env", "add_launch", "add_migrate", "add_trace"]


def add_env(commands: Any) -> None:
    """Adds the command to `ArgumentParser.add_subparsers()`."""
    parser = commands.add_parser(
        "env",
        help="print versions, devices and settings for a bug report",
        description="Prints the versions of Towerpack and its dependencies, the devices that TensorFlow "
        "finds, and the environment variables that affect them.",
    )
    parser.set_defaults(run=_env)


def _env(options: argparse.Namespace) -> int:
    print(collect_env_info())
    return 0


def add_launch(commands: Any) -> None:
    """Adds the command to `ArgumentParser.add_subparsers()`."""
    parser = commands.add_parser(
        "launch",
        help="train in several processes on this machine",
        description="Starts a script in several processes, and restarts all of them when one dies. The exit "
        "status is that of the script.",
    )
    parser.add_argument("--processes", type=int, required=True, help="number of processes")
    parser.add_argument("--max-restarts", type=int, default=0, help="number of restarts after a process dies")
    parser.add_argument(
        "--min-processes",
        type=int,
        help="each restart uses one process less, down to this number; default: no process less",
    )
    parser.add_argument("--grace", type=float, default=15.0, help="seconds to exit before being killed")
    parser.add_argument("script", help="the script; TF_CONFIG describes the cluster")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the script")
    parser.set_defaults(run=_launch)


def _launch(options: argparse.Namespace) -> int:
    command = [sys.executable, options.script, *options.arguments]
    try:
        return launch(command, options.processes, options.max_restarts, options.min_processes, options.grace)
    except LaunchError as error:
        print(error, file=sys.stderr)
        return 2


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


_NEW = "python -m towerpack_compat migrate"


def add_migrate(commands: Any) -> None:
    """Adds the command to `ArgumentParser.add_subparsers()`."""
    parser = commands.add_parser(
        "migrate",
        add_help=False,
        prefix_chars="\0",  # all arguments belong to the other command, options included
        help=f"the same as `{_NEW}`, which replaces it",
    )
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    parser.set_defaults(run=_migrate)


def _migrate(options: argparse.Namespace) -> int:
    """Runs the other command in a separate process: this package does not depend on that one."""
    if find_spec("towerpack_compat") is None:
        raise TrainerCommandError(
            f'`migrate` is now a command of another package. Run `pip install "towerpack-compat[migrate]"`, '
            f"then `{_NEW}`."
        )
    print(f"use `{_NEW}`; this name will be removed in the release after the next one", file=sys.stderr)
    command = [sys.executable, "-m", "towerpack_compat", "migrate", *options.arguments]
    return subprocess.run(command, check=False).returncode
