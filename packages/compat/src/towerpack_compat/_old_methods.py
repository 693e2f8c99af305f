"""The methods that Tensorpack's flows and input sources have, and Towerpack's do not."""

from __future__ import annotations

import functools
from typing import Any

import towerpack_dataflow

__all__ = ["add_to_flows", "add_to_sources"]


@functools.cache
def add_to_flows() -> None:
    """Gives `DataFlow` the methods `size` and `get_data`, which a subclass may also define instead."""
    kind: Any = towerpack_dataflow.DataFlow
    before = kind.__dict__["__init_subclass__"].__func__

    def __init_subclass__(cls: Any, **arguments: Any) -> None:
        for old, new in (("get_data", "__iter__"), ("size", "__len__")):
            if old in vars(cls) and new not in vars(cls):
                setattr(cls, new, vars(cls)[old])
        before(cls, **arguments)

    kind.__init_subclass__ = classmethod(__init_subclass__)
    kind.get_data = lambda self: iter(self)
    kind.size = lambda self: len(self)


@functools.cache
def add_to_sources() -> None:
    """Makes `InputSource.setup` return callbacks, and adds `get_callbacks`."""
    import towerpack_inputsource

    from .tensorpack.training._trainer import InputCallback

    kind: Any = towerpack_inputsource.InputSource
    before = kind.setup

    @functools.wraps(before)
    def setup(self: Any, specs: Any) -> list[Any]:
        before(self, specs)
        return [InputCallback(self)]

    kind.setup = setup
    kind.get_callbacks = lambda self: [InputCallback(self)]
    kind.setup_done = lambda self: self._specs is not None
