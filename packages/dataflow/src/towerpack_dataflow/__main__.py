"""`python -m towerpack_dataflow`: measures flows, shows them and their states, and converts files."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from typing import Any

from . import DataFlow, DataFlowError, TestDataSpeed
from .cli._file_commands import add_files
from .cli._show_command import add_show
from .cli._state_commands import FLOW_HELP, CommandError, FlowNotFoundError, add_state, load_flow
from .flow._tree_fingerprint import known_length
from .sources._from_iterable import as_dataflow

__all__ = ["add_commands", "main", "run_data"]


def add_commands(commands: Any) -> None:
    """Adds `data`, with all its commands, to `ArgumentParser.add_subparsers()`."""
    data = commands.add_parser("data", help="measure and show flows, convert files")
    _add_commands_of_data(data.add_subparsers(required=True, metavar="COMMAND"))


def run_data(arguments: Sequence[str], program: str) -> int:
    """Runs `towerpack data`, and returns the exit status.

    Args:
        arguments: `data`, and its arguments.
        program: the name of the program.
    """
    return main(arguments[1:], f"{program} {arguments[0]}")


def main(arguments: Sequence[str] | None = None, program: str = "python -m towerpack_dataflow") -> int:
    """Runs a command, and returns the exit status."""
    parser = argparse.ArgumentParser(prog=program, description="Measures flows.")
    _add_commands_of_data(parser.add_subparsers(required=True, metavar="COMMAND"))
    options = parser.parse_args(arguments)
    try:
        status: int = options.run(options)
    except (CommandError, FlowNotFoundError, DataFlowError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    return status


def _add_commands_of_data(commands: Any) -> None:
    bench = commands.add_parser(
        "bench",
        help="measure a flow and each flow it is built of",
        description="Prints datapoints/s, bytes/s and memory of a flow; where its time goes, flow by flow; "
        "its bottleneck; and the number of workers that pays off.",
    )
    bench.add_argument(
        "flow",
        metavar="MODULE:NAME",
        help=FLOW_HELP,
    )
    bench.add_argument("--size", type=int, default=1000, help="datapoints to time (default: %(default)s)")
    bench.add_argument(
        "--seconds",
        type=float,
        default=10.0,
        help="stop the measurement after this many seconds (default: %(default)g)",
    )
    bench.add_argument("--warmup", type=int, help="untimed datapoints (default: 10; fewer for a short flow)")
    bench.add_argument(
        "--consumer-ms",
        type=float,
        default=0.0,
        help="time the consumer takes per datapoint, such as a training step (default: 0)",
    )
    bench.add_argument(
        "--trace",
        metavar="FILE",
        help="then run the flow once more and write a timeline of all processes, for ui.perfetto.dev",
    )
    bench.set_defaults(run=_bench)
    for add in (add_state, add_show, add_files):
        add(commands)


def _bench(options: argparse.Namespace) -> int:
    flow = as_dataflow(load_flow(options.flow))
    warmup = _usual_warmup(flow) if options.warmup is None else options.warmup
    speed = TestDataSpeed(flow, options.size, warmup, options.seconds)
    speed.diagnose(options.consumer_ms / 1e3)
    if options.trace is not None:
        speed.timeline(options.trace)
    return 0


def _usual_warmup(flow: DataFlow) -> int:
    length = known_length(flow)
    return 10 if length is None else min(10, length // 10)


if __name__ == "__main__":
    sys.exit(main())
