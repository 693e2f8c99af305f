"""`python -m towerpack_dataflow bench module:factory`: how fast a flow is, and why."""

from __future__ import annotations

import argparse
import importlib
import runpy
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from . import DataFlow, DataFlowError, TestDataSpeed


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command, and returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m towerpack_dataflow", description=__doc__)
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
    bench.add_argument("--warmup", type=int, default=10, help="datapoints before (default: %(default)s)")
    bench.add_argument(
        "--consumer-ms",
        type=float,
        default=0.0,
        help="what the consumer needs for a datapoint, a training step for example (default: nothing)",
    )
    options = parser.parse_args(arguments)
    try:
        flow = found(options.flow)
        TestDataSpeed(flow, options.size, options.warmup).diagnose(options.consumer_ms / 1e3)
    except (_NotFoundError, DataFlowError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def found(address: str) -> DataFlow:
    """The flow at `module:name`."""
    module, colon, name = address.rpartition(":")
    if not (module and colon and name):
        raise _NotFoundError(f"MODULE:NAME expected, like my_project.data:train_flow; got {address!r}")
    made: Any = _namespace(module, name)
    if callable(made) and not isinstance(made, DataFlow):
        factory: Callable[[], Any] = made
        made = factory()
    if not hasattr(made, "__iter__"):
        raise _NotFoundError(
            f"{address} is {type(made).__name__}, not a flow nor a function that returns one"
        )
    return made  # type: ignore[no-any-return]


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
