"""The session of a run: its options, its creation, and the threads that TensorFlow uses for it."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks.checkpoint import assign_variables, complete_copies, initial_feeds

from .._argument_checks import at_least
from .._errors import ConfigError
from ..towers._devices import check_session_has_towers

__all__ = [
    "configure_process",
    "cpu_session_config",
    "create_session",
    "default_session_config",
    "gpu_session_config",
]

_log = logging.getLogger("towerpack_trainers")


def default_session_config(devices: Sequence[str] = ()) -> tf.ConfigProto:
    """Returns session options chosen for training speed.

    - One thread inside each op on machines of up to four cores: a graph has enough ops to keep those busy,
      and dividing small ops costs more than it gains. On larger machines TensorFlow decides.
    - GPU memory is allocated on demand.
    - Ops without a kernel for the requested device run on another one.

    A trainer also sets the environment variable `TF_MKL_OPTIMIZE_PRIMITIVE_MEMUSE`, unless it is set; this
    function does not, so a custom loop may set it to "false" before its first op.

    Args:
        devices: the devices of the towers; if several CPU devices are named ("/cpu:1"), they are made.
    """
    config = tf.ConfigProto(allow_soft_placement=True)
    if (os.cpu_count() or 1) <= 4:
        config.intra_op_parallelism_threads = 1
    config.gpu_options.allow_growth = True
    cpus = [int(device.rsplit(":", 1)[1]) for device in devices if _is_numbered_cpu(device)]
    if cpus:
        config.device_count["CPU"] = max(cpus) + 1
    return config


def add_thread_pools(config: tf.ConfigProto) -> None:
    """Adds TensorFlow's usual pool of threads to options of a session, and one of a single thread.

    Steps use the second one if they are faster without passing ops from one thread to another, as those of
    small networks are. Sessions of a server do not support pools.

    Args:
        config: the options, which are changed.
    """
    for threads in (0, 1):  # 0: TensorFlow's number
        config.session_inter_op_thread_pool.add(num_threads=threads)


def cpu_session_config(devices: Sequence[str] = (), threads: int | None = None) -> tf.ConfigProto:
    """Returns options of a session without GPUs, for several trainings on one host or for debugging.

    Args:
        devices: see `default_session_config`.
        threads: the number of threads that run ops, and that work on one op; None: as
            `default_session_config`. TensorFlow makes these threads once per process, at its first session.

    Raises:
        ConfigError: `threads` is not a whole number of at least 1.
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
    """Returns options of a session with explicit limits of GPU memory.

    Args:
        memory_growth: allocate memory on demand. False allocates the allowed memory at once, which causes
            less fragmentation: a model may fit that otherwise does not.
        memory_fraction: the fraction of each GPU's memory that may be allocated, above 0, at most 1; None:
            all. Use it for several processes on one GPU.
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


def create_session(
    graph: tf.Graph,
    config: tf.ConfigProto,
    target: str = "",
    values: Mapping[str, np.ndarray] | None = None,
) -> tf.Session:
    """Creates a session with all variables and tables initialised, and makes the graph final.

    Args:
        graph: the graph to run.
        config: the options of the session.
        target: the server that runs it; "" for none.
        values: values that replace the variables' own initial values, which are then not computed; arrays by
            name.

    Raises:
        ConfigError: the session lacks the device of a tower.
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
        check_session_has_towers(sess)
        sess.run(initializers, feeds)
        assign_variables(sess, shared)
        complete_copies(sess)
    except BaseException:
        sess.close()
        raise
    return sess


def configure_process(config: tf.ConfigProto) -> None:
    """Sets TensorFlow's settings that exist once per process: the number of threads, and a setting of oneDNN.

    oneDNN keeps compiled code for a convolution's gradients, as it does for the convolution itself,
    which costs no memory. TensorFlow reads `TF_MKL_OPTIMIZE_PRIMITIVE_MEMUSE` at the first such op; an
    existing value in the environment is kept.

    The threads are made by the first session or the first eager op, and building a graph often includes an
    eager op: with a `tf.while_loop` in it, steps of a small model take nearly twice as long. Call this
    function before building. If it is too late, a warning is logged.

    Args:
        config: the session's options.
    """
    os.environ.setdefault("TF_MKL_OPTIMIZE_PRIMITIVE_MEMUSE", "false")
    for name in ("intra_op_parallelism_threads", "inter_op_parallelism_threads"):
        number = getattr(config, name)
        if not number:
            continue  # TensorFlow decides, in both places
        try:
            getattr(tf.config.threading, f"set_{name}")(number)
        except RuntimeError:
            _warn_that_it_is_too_late(name, number)


@functools.cache  # once per process, as the threads are made
def _warn_that_it_is_too_late(name: str, number: int) -> None:
    _log.warning(
        "An eager op ran before the trainer was made, so %s=%d may have no effect, and steps can take "
        "twice as long. Make the trainer first, or begin with tf.config.threading.set_%s(%d).",
        name,
        number,
        name,
        number,
    )
