"""Options of the session that a trainer runs in."""

from __future__ import annotations

import os
from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from .._argument_checks import at_least
from .._errors import ConfigError

__all__ = ["cpu_session_config", "default_session_config", "gpu_session_config"]


def default_session_config(devices: Sequence[str] = ()) -> tf.ConfigProto:
    """Returns session options chosen for training speed.

    - One thread inside each op on machines of up to four cores: a graph has ops enough to keep those busy,
      and handing parts of small ops around costs more than it brings. On larger machines TensorFlow decides.
    - GPU memory is taken as it is needed.
    - Ops without a kernel on the wanted device go where they have one.

    A trainer also sets the environment variable `TF_MKL_OPTIMIZE_PRIMITIVE_MEMUSE`, unless it is set; this
    function sets nothing, so a loop of your own may set it to "false" before its first op.

    Args:
        devices: the devices of the towers; several CPU devices ("/cpu:1") are made if they are named.
    """
    config = tf.ConfigProto(allow_soft_placement=True)
    if (os.cpu_count() or 1) <= 4:
        config.intra_op_parallelism_threads = 1
    config.gpu_options.allow_growth = True
    cpus = [int(device.rsplit(":", 1)[1]) for device in devices if _is_numbered_cpu(device)]
    if cpus:
        config.device_count["CPU"] = max(cpus) + 1
    return config


def cpu_session_config(devices: Sequence[str] = (), threads: int | None = None) -> tf.ConfigProto:
    """Returns options of a session without GPUs, for several trainings on one host or a debugger's.

    Args:
        devices: see `default_session_config`.
        threads: how many threads run ops, and how many work on one op; None: as `default_session_config`.
            TensorFlow makes these threads once per process, at its first session.

    Raises:
        ConfigError: `threads` is no whole number of at least 1.
    """
    config = default_session_config(devices)
    config.device_count["GPU"] = 0
    if threads is not None:
        at_least("cpu_session_config", "threads", threads)
        config.intra_op_parallelism_threads = config.inter_op_parallelism_threads = threads
    return config


def gpu_session_config(
    memory_growth: bool = True, memory_fraction: float | None = None, devices: Sequence[str] = ()
) -> tf.ConfigProto:
    """Returns options of a session that says how much of the GPUs' memory it takes.

    Args:
        memory_growth: take memory as it is needed. False takes all that is allowed at once, which fragments
            less: it may be what lets a model fit that barely does.
        memory_fraction: the part of each GPU's memory that may be taken, above 0, at most 1; None: all. For
            several processes on one GPU.
        devices: see `default_session_config`.

    Raises:
        ConfigError: `memory_fraction` is out of range.
    """
    config = default_session_config(devices)
    config.gpu_options.allow_growth = memory_growth
    if memory_fraction is not None:
        if not 0 < memory_fraction <= 1:
            raise ConfigError(
                f"gpu_session_config(memory_fraction={memory_fraction!r}): expected a number above 0, at "
                "most 1."
            )
        config.gpu_options.per_process_gpu_memory_fraction = memory_fraction
    return config


def _is_numbered_cpu(device: str) -> bool:
    kind, _, number = device.lower().rpartition(":")
    return kind.rsplit("/", 1)[-1].removeprefix("device:") == "cpu" and number.isdigit()
