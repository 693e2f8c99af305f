"""`python -m towerpack_dataflow state`: shows, makes and compares states of flows, and traces datapoints."""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import runpy
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, final

from ..flow._flow import DataFlow
from ..flow._tree_fingerprint import differences
from ..sources._from_iterable import as_dataflow

__all__ = ["FLOW_HELP", "CommandError", "FlowNotFoundError", "add_state", "load_flow"]

FLOW_HELP = "a flow, or a function that returns one; the module by name or as the path of a .py file"


def load_flow(address: str) -> Any:
    """Loads the flow at `module:name`, and calls it if it is a function.

    Raises:
        FlowNotFoundError: the module or name does not exist, or the object is not a flow.
    """
    module, colon, name = address.rpartition(":")
    if not (module and colon and name):
        raise FlowNotFoundError(
            f"MODULE:NAME expected, like my_project.data:train_flow; received {address!r}"
        )
    made: Any = _namespace(module, name)
    if callable(made) and not isinstance(made, DataFlow):
        made = _called(address, made)
    if not hasattr(made, "__iter__"):
        raise FlowNotFoundError(
            f"{address} is {type(made).__name__}, neither a flow nor a function that returns one"
        )
    return made


def _called(address: str, factory: Callable[[], Any]) -> Any:
    try:
        with suppress(ValueError):  # from a built-in without a signature
            inspect.signature(factory).bind()
    except TypeError as error:
        raise FlowNotFoundError(
            f"{address} cannot be called without arguments ({error}); name a function that can"
        ) from None
    return factory()


def _namespace(module: str, name: str) -> Any:
    if module.endswith(".py"):
        if not Path(module).is_file():
            raise FlowNotFoundError(f"there is no file {module}")
        names = runpy.run_path(module)
    else:
        sys.path.insert(0, "")
        try:
            names = vars(importlib.import_module(module))
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module}.".startswith(f"{error.name}."):
                raise  # the module exists, but one of its imports does not
            raise FlowNotFoundError(f"there is no module {module}, searched from {Path.cwd()}") from None
        finally:
            sys.path.remove("")
    if name not in names:
        raise FlowNotFoundError(f"{module} defines no {name}")
    return names[name]


@final
class FlowNotFoundError(Exception):
    """The flow does not exist."""


_POSITION = ("seed", "epoch", "index")


@final
class CommandError(Exception):
    """The command line refers to a missing or unsupported object."""


def add_state(commands: Any) -> None:
    """Adds `state` and its four commands to a parser's sub-commands."""
    state = commands.add_parser(
        "state", help="show, make and compare states of flows; trace a datapoint to its sources"
    )
    kinds = state.add_subparsers(required=True, metavar="COMMAND")
    show = kinds.add_parser("show", help="print the content of a state")
    show.add_argument("file", help="JSON file with a state at any depth, such as one saved by a training run")
    show.set_defaults(run=_show)
    seek = kinds.add_parser("seek", help="print the state after N datapoints, as JSON, without reading any")
    _add_flow(seek)
    seek.add_argument("n", metavar="N", type=int, help="datapoints since epoch 0")
    seek.set_defaults(run=_seek)
    diff = kinds.add_parser("diff", help="print how two states differ; status 1 if they do")
    diff.add_argument("files", nargs=2, metavar="FILE")
    diff.set_defaults(run=_diff)
    trace = kinds.add_parser("trace", help="print the sources of a datapoint")
    _add_flow(trace)
    where = trace.add_mutually_exclusive_group(required=True)
    where.add_argument("--index", type=int, help="index of the datapoint in its epoch")
    where.add_argument("--state", metavar="FILE", help="the next datapoint after this state")
    trace.add_argument("--epoch", type=int, default=0, help="with --index (default: %(default)s)")
    trace.add_argument("--json", action="store_true", help="print the tree as JSON")
    trace.set_defaults(run=_trace)


def _add_flow(command: argparse.ArgumentParser) -> None:
    command.add_argument("flow", metavar="MODULE:NAME", help=FLOW_HELP)
    command.add_argument("--seed", type=int, help="seed of the flow (default: the flow's seed, or 0)")


def _show(options: argparse.Namespace) -> int:
    for line in _described(_read(options.file)):
        print(line)
    return 0


def _seek(options: argparse.Namespace) -> int:
    print(json.dumps(_flow(options).state_at(options.n)))
    return 0


def _diff(options: argparse.Namespace) -> int:
    one, other = (_read(file) for file in options.files)
    found = {name: (one[name], other[name]) for name in _POSITION if one[name] != other[name]}
    if "flow" in one and "flow" in other:
        found |= differences(one["flow"], other["flow"])
    for name in ("seeds", "marks"):
        if one.get(name, {}) != other.get(name, {}):
            found[name] = one.get(name, {}), other.get(name, {})
    for name, (was, now) in found.items():
        print(f"{name}: {was} / {now}")
    return 1 if found else 0


def _trace(options: argparse.Namespace) -> int:
    flow = _flow(options)
    epoch, index = options.epoch, options.index
    if options.state is not None:
        state = _read(options.state)
        flow.load_state_dict(state)
        epoch, index = state["epoch"], state["index"]
        if index == len(flow):
            epoch, index = epoch + 1, 0
    trace = flow.trace(index, epoch)
    print(json.dumps(trace.to_dict()) if options.json else trace)
    return 0


def _flow(options: argparse.Namespace) -> DataFlow:
    flow = as_dataflow(load_flow(options.flow))
    if options.seed is not None or flow._seed is None:
        flow.seed(options.seed or 0)
    return flow


def _read(file: str) -> Mapping[str, Any]:
    try:
        content = json.loads(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise CommandError(f"cannot read {file}: {error.strerror}") from None
    except ValueError as error:
        raise CommandError(f"{file} is not JSON: {error}") from None
    found = next(_states(content), None)
    if found is None:
        raise CommandError(f"{file} contains no state of a flow, that is, no seed, epoch and index together")
    return found


def _states(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, dict):
        if all(isinstance(value.get(name), int) for name in _POSITION):
            yield value
        for part in value.values():
            yield from _states(part)


def _described(state: Mapping[str, Any]) -> Iterator[str]:
    yield f"next: datapoint {state['index']} of epoch {state['epoch']}, seed {state['seed']}"
    yield f"format {state.get('version', 1)}"
    for place, settings in state.get("flow", {}).items():
        details = ", ".join(f"{name} {value}" for name, value in settings.items() if name != "kind")
        yield (
            "  " * (place.count(".") + 2 if place else 1)
            + settings["kind"]
            + (f": {details}" if details else "")
        )
    for place, seed in state.get("seeds", {}).items():
        yield f"separate seed at {place}: {seed}"
    for place, mark in state.get("marks", {}).items():
        yield f"mark at {place or 'the top'}: {mark}"
