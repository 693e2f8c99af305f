"""Loads the flow named on the command line."""

from __future__ import annotations

import importlib
import inspect
import runpy
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, final

from ..flow._flow import DataFlow

__all__ = ["FLOW_HELP", "FlowNotFoundError", "load_flow"]

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
