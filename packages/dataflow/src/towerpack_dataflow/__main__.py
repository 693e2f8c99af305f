"""`python -m towerpack_dataflow bench module:factory`: measures a flow and each flow it is built of."""

from __future__ import annotations

import argparse
import importlib
import inspect
import runpy
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from . import DataFlow, DataFlowError, TestDataSpeed
from .flow._tree_facts import known_length
from .sources._as_dataflow import as_dataflow

__all__ = ["load_flow", "main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command, and returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m towerpack_dataflow", description="Looks into flows.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    bench = commands.add_parser(
        "bench",
        help="measure a flow and each flow it is built of",
        description="Prints datapoints/s, bytes/s and memory of a flow; where its time goes, flow by flow; "
        "its bottleneck; and how many workers it is worth.",
    )
    bench.add_argument(
        "flow",
        metavar="MODULE:NAME",
        help="a flow, or a function that returns one; the module by name or as the path of a .py file",
    )
    bench.add_argument("--size", type=int, default=1000, help="datapoints to time (default: %(default)s)")
    bench.add_argument(
        "--seconds",
        type=float,
        default=10.0,
        help="time fewer datapoints if that many seconds are over (default: %(default)g)",
    )
    bench.add_argument("--warmup", type=int, help="datapoints before (default: 10, fewer of a short flow)")
    bench.add_argument(
        "--consumer-ms",
        type=float,
        default=0.0,
        help="what the consumer needs for a datapoint, a training step for example (default: nothing)",
    )
    options = parser.parse_args(arguments)
    try:
        flow = as_dataflow(load_flow(options.flow))
        warmup = _usual_warmup(flow) if options.warmup is None else options.warmup
        TestDataSpeed(flow, options.size, warmup, options.seconds).diagnose(options.consumer_ms / 1e3)
    except (_NotFoundError, DataFlowError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    return 0


def _usual_warmup(flow: DataFlow) -> int:
    length = known_length(flow)
    return 10 if length is None else min(10, length // 10)


def load_flow(address: str) -> Any:
    """Loads the flow at `module:name`."""
    module, colon, name = address.rpartition(":")
    if not (module and colon and name):
        raise _NotFoundError(f"MODULE:NAME expected, like my_project.data:train_flow; received {address!r}")
    made: Any = _namespace(module, name)
    if callable(made) and not isinstance(made, DataFlow):
        made = _called(address, made)
    if not hasattr(made, "__iter__"):
        raise _NotFoundError(
            f"{address} is {type(made).__name__}, not a flow nor a function that returns one"
        )
    return made


def _called(address: str, factory: Callable[[], Any]) -> Any:
    try:
        with suppress(ValueError):  # from a built-in that does not say what it takes
            inspect.signature(factory).bind()
    except TypeError as error:
        raise _NotFoundError(
            f"{address} cannot be called without arguments ({error}); name a function that can"
        ) from None
    return factory()


def _namespace(module: str, name: str) -> Any:
    if module.endswith(".py"):
        if not Path(module).is_file():
            raise _NotFoundError(f"there is no file {module}")
        names = runpy.run_path(module)
    else:
        sys.path.insert(0, "")
        try:
            names = vars(importlib.import_module(module))
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module}.".startswith(f"{error.name}."):
                raise  # the module is there, and something it needs is not
            raise _NotFoundError(f"there is no module {module}, seen from {Path.cwd()}") from None
        finally:
            sys.path.remove("")
    if name not in names:
        raise _NotFoundError(f"{module} defines no {name}")
    return names[name]


class _NotFoundError(Exception):
    pass


if __name__ == "__main__":
    sys.exit(main())
