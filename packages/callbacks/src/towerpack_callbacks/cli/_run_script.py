"""Runs a script, and leaves lines of information out that TensorFlow prints while it is imported.

`towerpack train` starts Python with this file. Some of these lines come before TensorFlow reads
`TF_CPP_MIN_LOG_LEVEL`, so they are filtered here, while that import runs. The filter is a process: it passes
on every other line at once, also those of an import that ends the process.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

__all__ = ["run_script"]

_FILTER = r"""
import re, sys
for line in sys.stdin.buffer:
    if not re.match(rb"I\d{4} |WARNING: All log messages before absl::InitializeLog", line):
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
"""
# A process that TensorFlow starts could keep the pipe open.
_SECONDS = 5


def run_script(arguments: Sequence[str]) -> None:
    """Runs a script as Python does.

    Args:
        arguments: the script and its arguments.
    """
    sys.meta_path.insert(0, _TensorflowFinder())
    sys.argv = list(arguments)
    sys.path[0] = os.path.dirname(os.path.realpath(arguments[0]))
    # It stays the main module at the end, while threads and functions of `atexit` run.
    main = sys.modules["__main__"] = ModuleType("__main__")
    main.__file__ = os.path.abspath(arguments[0])
    with open(arguments[0], "rb") as file:
        source = file.read()
    exec(compile(source, main.__file__, "exec", dont_inherit=True), vars(main))


class _TensorflowFinder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "tensorflow":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module = _filtered(spec.loader)  # type: ignore[method-assign, assignment]
        return spec


def _filtered(loader: importlib.abc.Loader) -> Callable[[ModuleType], None]:
    load = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        with _without_information():
            load(module)

    return exec_module


@contextlib.contextmanager
def _without_information() -> Iterator[None]:
    try:
        stderr = os.dup(2)
    except OSError:  # it is closed
        yield
        return
    command = [sys.executable, "-I", "-S", "-c", _FILTER]
    # In a session of its own, the filter stays during Ctrl-C.
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=stderr, start_new_session=True)
    assert process.stdin is not None
    os.dup2(process.stdin.fileno(), 2)
    process.stdin.close()
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_SECONDS)


if __name__ == "__main__":
    run_script(sys.argv[1:])
