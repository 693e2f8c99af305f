"""The session a trainer runs in."""

from __future__ import annotations

import os
from collections.abc import Sequence

import tensorflow.compat.v1 as tf

__all__ = ["create_session", "default_session_config"]


def default_session_config(devices: Sequence[str] = ()) -> tf.ConfigProto:
    """Session options chosen for training speed.

    - One thread inside each op on machines of up to four cores: a graph has ops enough to keep those busy,
      and handing parts of small ops around costs more than it brings (LeNet on two cores: 1250 against
      800 steps/s). On larger machines TensorFlow decides.
    - GPU memory is taken as it is needed.
    - Ops without a kernel on the wanted device go where they have one.

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


def _is_numbered_cpu(device: str) -> bool:
    kind, _, number = device.lower().rpartition(":")
    return kind.rsplit("/", 1)[-1].removeprefix("device:") == "cpu" and number.isdigit()


def create_session(graph: tf.Graph, config: tf.ConfigProto, target: str = "") -> tf.Session:
    """A session with all variables and tables initialised, on a graph that is final from then on.

    Args:
        graph: what to run.
        config: its options.
        target: the server to run it in; "" for none.
    """
    with graph.as_default():
        initializers = [
            tf.global_variables_initializer(),
            tf.local_variables_initializer(),
            tf.tables_initializer(),
        ]
    graph.finalize()
    sess = tf.Session(target, graph=graph, config=config)
    try:
        sess.run(initializers)
    except BaseException:
        sess.close()
        raise
    return sess
