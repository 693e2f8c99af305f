"""Runs tests on one mutant after the other, each in a fork of a process that has imported what is slow."""

from __future__ import annotations

import compileall
import importlib.util
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from .cores import ROOT, Core
from .mutations import Mutant, mutants_of

__all__ = ["Trial", "survivors_of"]

# A mutant may loop for ever.
_FACTOR, _LEAST_SECONDS = 10.0, 10.0


class Trial:
    """The tests of a core, on a copy of its wheel.

    Args:
        core: whose mutants are tried.
        place: the copy, laid out as the repository is.
    """

    def __init__(self, core: Core, place: Path) -> None:
        self._core = core
        self._sources = place / "src"
        self._file = self._sources / core.below_sources
        self._tests = [str(place / "tests" / test) for test in core.tests]
        self._limit = 600.0

    @classmethod
    @contextmanager
    def of(cls, core: Core) -> Iterator[Trial]:
        """Makes the copy, and sees the tests pass on the original.

        Raises:
            RuntimeError: they do not.
        """
        with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
            wheel, place = ROOT / "packages" / core.wheel, Path(scratch)
            for part in ("src", "tests"):
                shutil.copytree(wheel / part, place / part, ignore=shutil.ignore_patterns("__pycache__"))
            for file in ("pyproject.toml", "conftest.py"):
                shutil.copy(ROOT / file, place)
            compileall.compile_dir(place / "src", quiet=1)
            Path(importlib.util.cache_from_source(str(place / "src" / core.below_sources))).unlink()
            trial, begun = cls(core, place), time.monotonic()
            if trial._fails(silent=False):
                raise RuntimeError(f"the tests of {core.name} fail on the code as it is")
            trial._limit = max(_FACTOR * (time.monotonic() - begun), _LEAST_SECONDS)
            yield trial

    def kills(self, mutant: Mutant) -> bool:
        """Tells whether a test fails, or does not end, on a mutant."""
        self._file.write_text(mutant.source, encoding="utf-8")
        return self._fails()

    def _fails(self, silent: bool = True) -> bool:
        child = os.fork()
        if not child:
            os._exit(self._test(silent))
        deadline = time.monotonic() + self._limit
        while time.monotonic() < deadline:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return status != 0
            time.sleep(0.01)
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return True

    def _test(self, silent: bool) -> int:
        """Runs in the child: a group of processes of its own, that reads the copy."""
        import pytest

        os.setpgid(0, 0)
        if silent:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
        sys.dont_write_bytecode = True  # a mutant may be as old and as long as the one before it
        sys.path.insert(0, str(self._sources))
        os.environ["PYTHONPATH"] = str(self._sources)
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        os.chdir(self._sources.parent)
        quiet = ["-x", "-q", "--no-header", "--tb=line", "-p", "no:cacheprovider", "-p", "pytest_timeout"]
        try:
            return int(pytest.main([*quiet, *self._tests]))
        except BaseException:
            traceback.print_exc()
            return 1
        finally:
            sys.stdout.flush()


def survivors_of(core: Core, part: int, parts: int) -> list[Mutant]:
    """Returns the mutants of a core that no test kills, of every `parts`-th one from number `part` on."""
    _import_what_is_slow(core)
    mutants = mutants_of(core.path.read_text(encoding="utf-8"))
    with Trial.of(core) as trial:
        return [mutant for mutant in islice(mutants, part, None, parts) if not trial.kills(mutant)]


def _import_what_is_slow(core: Core) -> None:
    """Imports what the tests need beside the wheel itself."""
    import hypothesis
    import numpy
    import pytest

    wanted = [hypothesis, numpy, pytest]
    if core.wheel != "dataflow":
        import tensorflow

        wanted.append(tensorflow)
    assert all(wanted) and not any(name.startswith("towerpack") for name in sys.modules)
