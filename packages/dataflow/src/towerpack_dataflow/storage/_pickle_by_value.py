"""Pickles of definitions with cloudpickle, with the file name of their code."""

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
        value: the object to pickle.
        buffer_callback: receives out-of-band buffers, as in `pickle.dumps`.
        pickler: a pickler class to use instead of `value_pickler()`.
    """
    file = io.BytesIO()
    (pickler or value_pickler())(file, 5, buffer_callback=buffer_callback).dump(value)
    return file.getvalue()


@functools.cache
def value_pickler() -> type[Any]:
    """Returns the class of these picklers; imports cloudpickle at the first call.

    From 3.1.3 on, cloudpickle replaces all file names by one, so that equal functions have equal pickles. A
    traceback from a worker would then show neither the file nor the line of the user's code.
    """
    import cloudpickle

    class ValuePickler(cloudpickle.Pickler):
        """Adds the name of its file to cloudpickle's pickle of code."""

        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, types.CodeType):
                make, arguments = self.dispatch_table[types.CodeType](obj)
                return _code_of_file, (obj.co_filename, make, arguments)
            return super().reducer_override(obj)

    return ValuePickler


def _code_of_file(name: str, make: Callable[..., types.CodeType], arguments: tuple[Any, ...]) -> Any:
    return make(*arguments).replace(co_filename=name)
