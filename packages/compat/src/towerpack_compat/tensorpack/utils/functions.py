"""`tensorpack.utils`: memoized functions, environment variables, random numbers, time and files."""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import os
import pickle
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from towerpack_dataflow import DataFlow

from ..._dry_run import dry_run_steps
from . import logger

__all__ = [
    "IterSpeedCounter",
    "Timer",
    "call_only_once",
    "change_env",
    "change_gpu",
    "download",
    "dumps",
    "execute_only_once",
    "fix_rng_seed",
    "get_data_format",
    "get_dataset_path",
    "get_nr_gpu",
    "get_num_gpu",
    "get_rng",
    "get_tf_version_tuple",
    "get_tqdm",
    "get_tqdm_kwargs",
    "humanize_time_delta",
    "loads",
    "log_once",
    "map_arg",
    "memoized",
    "memoized_ignoreargs",
    "memoized_method",
    "mkdir_p",
    "normpath",
    "recursive_walk",
    "timed_operation",
]

memoized = functools.cache


def map_arg(**maps: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Returns a decorator that applies functions to arguments by name."""

    def decorate(function: Any) -> Any:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            bound = signature.bind_partial(*args, **kwargs)
            for name, change in maps.items():
                if name in bound.arguments:
                    bound.arguments[name] = change(bound.arguments[name])
            return function(*bound.args, **bound.kwargs)

        return call

    return decorate


def memoized_method(function: Any) -> Any:
    """Caches the result of a method for each object and arguments."""
    name = f"_MEMOIZED_{function.__name__}"

    @functools.wraps(function)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if name not in vars(self):
            vars(self)[name] = functools.cache(functools.partial(function, self))
        return vars(self)[name](*args, **kwargs)

    return call


def memoized_ignoreargs(function: Any) -> Any:
    """Caches the first result of a function; ignores the arguments of later calls."""
    results: list[Any] = []

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not results:
            results.append(function(*args, **kwargs))
        return results[0]

    return call


def call_only_once(function: Any) -> Any:
    """Makes the second call of a method on an object raise an error."""
    name = f"_CALLED_{function.__name__}"

    @functools.wraps(function)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        method = f"{type(self).__name__}.{function.__name__}"
        assert name not in vars(self), f"Method {method} can only be called once!"
        vars(self)[name] = True
        return function(self, *args, **kwargs)

    return call


@functools.cache
def log_once(message: str, func: str = "info") -> None:
    """Logs a message once."""
    getattr(logger, func)(message)


_executed: set[tuple[str, int]] = set()


def execute_only_once() -> bool:
    """Returns whether this is the first call in its line of code."""
    frame = sys._getframe(1)
    key = (frame.f_code.co_filename, frame.f_lineno)
    is_new = key not in _executed
    _executed.add(key)
    return is_new


def get_data_format(data_format: str, keras_mode: bool = True) -> str:
    """Converts a layout to the name of Keras (`channels_last`) or TensorFlow (`NHWC`)."""
    names = ("channels_last", "channels_first") if keras_mode else ("NHWC", "NCHW")
    return names[data_format in ("NCHW", "channels_first")]


def get_tf_version_tuple() -> tuple[int, ...]:
    """Returns the version of TensorFlow, major and minor."""
    import tensorflow as tf

    return tuple(map(int, tf.__version__.split(".")[:2]))


@contextlib.contextmanager
def change_env(name: str, val: str | None) -> Iterator[None]:
    """Sets an environment variable within a block; None unsets it."""
    before = os.environ.pop(name, None)
    os.environ.update({} if val is None else {name: val})
    try:
        yield
    finally:
        os.environ.pop(name, None)
        os.environ.update({} if before is None else {name: before})


def change_gpu(val: Any) -> contextlib.AbstractContextManager[None]:
    """Sets the visible GPUs within a block; -1 means none."""
    return change_env("CUDA_VISIBLE_DEVICES", "" if str(val) == "-1" else str(val))


def get_num_gpu() -> int:
    """Returns the number of GPUs visible through CUDA_VISIBLE_DEVICES; in a dry run at least one."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        found = len([*Path("/proc/driver/nvidia/gpus").glob("*")])
    else:
        found = len({*map(str.strip, visible.split(","))} - {"", "-1"})
    return max(found, int(dry_run_steps() is not None))


get_nr_gpu = get_num_gpu
_rng_seed: int | None = None


def fix_rng_seed(seed: int) -> None:
    """Sets the seed of all later calls of `get_rng`, and of flows without a seed."""
    global _rng_seed
    flows: Any = DataFlow
    flows._seed = _rng_seed = int(seed)


def get_rng(obj: Any = None) -> np.random.RandomState:
    """Returns a random number generator, seeded by the system or by `fix_rng_seed`."""
    return np.random.RandomState(_rng_seed)


def get_tqdm_kwargs(**kwargs: Any) -> dict[str, Any]:
    """Returns the settings of a progress bar."""
    return {"smoothing": 0.5, "dynamic_ncols": True, "ascii": True, **kwargs}


def get_tqdm(*args: Any, **kwargs: Any) -> Any:
    """Returns a progress bar."""
    from tqdm import tqdm

    return tqdm(*args, **get_tqdm_kwargs(**kwargs))


def humanize_time_delta(sec: float) -> str:
    """Returns a duration in words.

    Args:
        sec: the duration in seconds.
    """
    if sec == 0:
        return "0 second"
    days, rest = divmod(sec, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, seconds = divmod(rest, 60)
    last = sec if sec < 60 else int(seconds)
    parts = zip((days, hours, minutes, last), ("day", "hour", "minute", "second"))
    return " ".join(f"{value:.3g} {unit}{'s' if value > 1 else ''}" for value, unit in parts if value > 0)


@contextlib.contextmanager
def timed_operation(msg: str, log_start: bool = False) -> Iterator[None]:
    """Logs the duration of a block."""
    assert msg
    if log_start:
        logger.info("Start %s ...", msg)
    start = time.perf_counter()
    yield
    logger.info("%s finished, time:%.4f sec.", msg[0].upper() + msg[1:], time.perf_counter() - start)


class Timer:
    """Measures the time since its creation, without pauses."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Restarts at zero."""
        self._start, self._paused = time.perf_counter(), 0.0
        self._pause_began: float | None = None

    def seconds(self) -> float:
        """Returns the time in seconds."""
        end = time.perf_counter() if self._pause_began is None else self._pause_began
        return end - self._start - self._paused

    def pause(self) -> None:
        """Pauses the timer."""
        if self._pause_began is not None:
            raise ValueError("Trying to pause a Timer that is already paused!")
        self._pause_began = time.perf_counter()

    def resume(self) -> None:
        """Resumes the timer."""
        if self._pause_began is None:
            raise ValueError("Trying to resume a Timer that is not paused!")
        self._paused += time.perf_counter() - self._pause_began
        self._pause_began = None

    def is_paused(self) -> bool:
        """Returns whether the timer is paused."""
        return self._pause_began is not None


class IterSpeedCounter:
    """Logs the number of calls per second.

    Args:
        print_every: the number of calls between two log lines.
        name: the name of the counted items.
    """

    def __init__(self, print_every: int, name: str | None = None) -> None:
        self.print_every, self.name = int(print_every), name or "IterSpeed"
        self.reset()

    def reset(self) -> None:
        """Restarts the count."""
        self._count, self._start = itertools.count(1), time.perf_counter()

    def __call__(self) -> None:
        number = next(self._count)
        if number % self.print_every == 0:
            logger.info("[%s] %.2f iter/sec", self.name, number / (time.perf_counter() - self._start))


def mkdir_p(dirname: str) -> None:
    """Creates a directory and its parents."""
    if dirname:
        os.makedirs(dirname, exist_ok=True)


def download(url: str, dir: str, filename: str | None = None, expect_size: int | None = None) -> str:
    """Downloads a file to a directory, unless it exists with the expected size, and returns its path.

    Raises:
        OSError: the download fails, or the file has another size.
    """
    mkdir_p(dir)
    path = os.path.join(dir, filename or url.rpartition("/")[2])
    if os.path.isfile(path) and os.path.getsize(path) == expect_size:
        logger.info("File %s exists! Skip download.", path)
        return path
    urllib.request.urlretrieve(url, path)
    size = os.path.getsize(path)
    if expect_size is not None and size != expect_size:
        raise OSError(f"{url} has {size} bytes, but {expect_size} are expected.")
    return path


def recursive_walk(rootdir: str) -> Iterator[str]:
    """Yields the paths of all files below a directory."""
    return (os.path.join(folder, file) for folder, _, files in os.walk(rootdir) for file in files)


def get_dataset_path(*args: str) -> str:
    """Returns a path below `$TENSORPACK_DATASET`, by default `~/tensorpack_data`."""
    root = os.environ.get("TENSORPACK_DATASET") or os.path.join(os.path.expanduser("~"), "tensorpack_data")
    os.makedirs(root, exist_ok=True)
    return os.path.join(root, *args)


def normpath(path: str) -> str:
    """Normalizes a path; returns the URL of a remote file unchanged."""
    return path if "://" in path else os.path.normpath(path)


def dumps(obj: Any) -> bytes:
    """Serializes an object with pickle."""
    return pickle.dumps(obj, protocol=4)  # NumPy 1 cannot read arrays of NumPy 2 in a later protocol


loads = pickle.loads  # pickles may run code: load only trusted bytes
