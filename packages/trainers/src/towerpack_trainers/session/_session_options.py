"""The session a trainer runs in."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks.checkpoint import assign_variables, initial_feeds

from .._argument_checks import at_least
from .._errors import ConfigError

__all__ = [
    "cpu_session_config",
    "create_session",
    "default_session_config",
    "gpu_session_config",
    "settle_threads",
]

_log = logging.getLogger("towerpack_trainers")


def default_session_config(devices: Sequence[str] = ()) -> tf.ConfigProto:
    """Session options chosen for training speed.

    - One thread inside each op on machines of up to four cores: a graph has ops enough to keep those busy,
      and handing parts of small ops around costs more than it brings (LeNet on two cores: 1250 against
      800 steps/s). On larger machines TensorFlow decides.
    - GPU memory is taken as it is needed.
    - Ops without a kernel on the wanted device go where they have one.

    oneDNN is told, in this process's environment, to keep what it has compiled for a convolution's gradients,
    as it does for the convolution itself: LeNet's step is a tenth faster, and no memory is lost by it
    (ResNet-50; images of 400 sizes). TensorFlow looks at `TF_MKL_OPTIMIZE_PRIMITIVE_MEMUSE` at the first such
    op; where it is set already, it stays.

    Args:
        devices: the devices of the towers; several CPU devices ("/cpu:1") are made if they are named.
    """
    os.environ.setdefault("TF_MKL_OPTIMIZE_PRIMITIVE_MEMUSE", "false")
    config = tf.ConfigProto(allow_soft_placement=True)
    if (os.cpu_count() or 1) <= 4:
        config.intra_op_parallelism_threads = 1
    config.gpu_options.allow_growth = True
    cpus = [int(device.rsplit(":", 1)[1]) for device in devices if _is_numbered_cpu(device)]
    if cpus:
        config.device_count["CPU"] = max(cpus) + 1
    return config


def cpu_session_config(devices: Sequence[str] = (), threads: int | None = None) -> tf.ConfigProto:
    """Options of a session that leaves the GPUs alone, for several trainings on one host or a debugger's.

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
    """Options of a session that says how much of the GPUs' memory it takes.

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


def settle_threads(config: tf.ConfigProto) -> None:
    """Has TensorFlow make the threads that a session asks for, also if something else makes them first.

    They are made once per process, by the first session or the first eager op, and there is an eager op in
    the building of many a graph: with a `tf.while_loop` in it, LeNet's steps took nearly twice as long.
    Call it before building. If it is too late for that already, a warning says so.

    Args:
        config: the session's options.
    """
    for name in ("intra_op_parallelism_threads", "inter_op_parallelism_threads"):
        number = getattr(config, name)
        if not number:
            continue  # TensorFlow decides, here and there
        try:
            getattr(tf.config.threading, f"set_{name}")(number)
        except RuntimeError:
            _warn_that_it_is_too_late(name, number)


@functools.cache  # once per process, as the threads are made
def _warn_that_it_is_too_late(name: str, number: int) -> None:
    _log.warning(
        "An eager op, such as tf.constant() outside of any graph, ran before the trainer was made. If it was "
        "TensorFlow's first in this process, it has fixed the number of threads, and the session's %s=%d has "
        "no effect: steps can take twice as long. Make the trainer first, or call "
        "tf.config.threading.set_%s(%d) at the start.",
        name,
        number,
        name,
        number,
    )


def create_session(
    graph: tf.Graph,
    config: tf.ConfigProto,
    target: str = "",
    values: Mapping[str, np.ndarray] | None = None,
) -> tf.Session:
    """A session with all variables and tables initialised, on a graph that is final from then on.

    Args:
        graph: what to run.
        config: its options.
        target: the server to run it in; "" for none.
        values: what variables begin with instead of their own initial values, which are not computed then;
            arrays by name.
    """
    with graph.as_default():
        feeds, shared = initial_feeds(graph, values or {})
        initializers = [
            tf.global_variables_initializer(),
            tf.local_variables_initializer(),
            tf.tables_initializer(),
        ]
    graph.finalize()
    sess = tf.Session(target, graph=graph, config=config)
    try:
        sess.run(initializers, feeds)
        assign_variables(sess, shared)
    except BaseException:
        sess.close()
        raise
    return sess
