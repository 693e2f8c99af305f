"""Pickles of definitions, as cloudpickle makes them, whose code keeps the name of its file."""

from __future__ import annotations

import functools
import io
import pickle
import types
from collections.abc import Callable
from typing import Any

__all__ = ["dump_by_value", "value_pickler"]


def dump_by_value(
    value: Any, buffer_callback: Callable[[pickle.PickleBuffer], Any] | None = None, pickler: Any = None
) -> bytes:
    """Pickles `value`; definitions that another process cannot import, such as those of `__main__`, by value.

    Args:
        value: what to pickle.
        buffer_callback: takes the buffers that are to travel beside the pickle, as of `pickle.dumps`.
        pickler: a class of picklers to use in place of `value_pickler()`.
    """
    file = io.BytesIO()
    (pickler or value_pickler())(file, 5, buffer_callback=buffer_callback).dump(value)
    return file.getvalue()


@functools.cache
def value_pickler() -> type[Any]:
    """Returns the class of such picklers, which imports cloudpickle when it is first needed.

    From 3.1.3 on, cloudpickle writes one name in place of those of all files, so that equal functions have
    equal pickles. A traceback from a worker would then show neither the file nor the line of the user's code.
    """
    import cloudpickle

    class ValuePickler(cloudpickle.Pickler):
        """Pickles the name of its file beside what cloudpickle makes of code."""

        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, types.CodeType):
                make, arguments = self.dispatch_table[types.CodeType](obj)
                return _code_of_file, (obj.co_filename, make, arguments)
            return super().reducer_override(obj)

    return ValuePickler


def _code_of_file(name: str, make: Callable[..., types.CodeType], arguments: tuple[Any, ...]) -> Any:
    return make(*arguments).replace(co_filename=name)
