"""The devices of the towers of one host, and the options of a session that has them."""

from __future__ import annotations

import functools
import logging
import os
import re
from collections.abc import Sequence
from typing import TypeGuard

import tensorflow.compat.v1 as tf
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

from .._argument_checks import at_least
from .._errors import ConfigError

__all__ = [
    "are_gpus",
    "check_devices",
    "check_session_has_towers",
    "choose_devices",
    "configure_process",
    "cpu_session_config",
    "default_session_config",
    "devices_of_towers",
    "get_num_gpu",
    "gpu_session_config",
    "keep_ops_apart",
    "note_devices",
    "session_config_of_trainer",
]

_log = logging.getLogger("towerpack_trainers")

# The graph collection with the devices of built towers, regardless of their builder.
_DEVICES = "towerpack_trainers/devices_of_towers"


def choose_devices(devices: int | Sequence[str] | None, gpus: int | Sequence[int] | None) -> list[str]:
    """Returns the devices of the towers, one each, for the arguments of a trainer.

    Args:
        devices: names such as "/gpu:0"; "/cpu:1" and so on are virtual CPU devices. Or the number of devices:
            GPUs if this host has any, else virtual CPU devices, and a warning is logged.
        gpus: the indices of GPUs, or their number; instead of `devices`.

    Returns:
        Names of devices. Without both arguments, all GPUs of this host; without a GPU, the CPU, and a
        warning is logged.

    Raises:
        ConfigError: both were given, or a device is invalid, does not exist, or is named twice.
    """
    if devices is not None and gpus is not None:
        raise ConfigError(f"Received both devices={devices!r} and gpus={gpus!r}; give only one of them.")
    if devices is not None:
        return check_devices(_first_devices(devices) if isinstance(devices, int) else devices)
    if gpus is not None:
        return check_devices(_gpu_names(gpus))
    present = get_num_gpu()
    if not present:
        _log.warning(
            "There is no GPU on this host, so one tower trains on the CPU. To try several towers on virtual "
            'CPU devices, name them: devices=["/cpu:0", "/cpu:1"].'
        )
        return ["/cpu:0"]
    return [f"/gpu:{index}" for index in range(present)]


def check_devices(devices: Sequence[str]) -> list[str]:
    """Checks that devices exist and are named once.

    Raises:
        ConfigError: a device does not exist or is named twice.
    """
    if not isinstance(devices, (list, tuple)) or not devices:
        raise ConfigError(
            f'devices={devices!r}: expected a list such as ["/gpu:0", "/gpu:1"]; trainers also take a number.'
        )
    parsed = [_parse(device) for device in devices]
    if len(set(parsed)) != len(parsed):
        raise ConfigError(f"devices={list(devices)!r} names a device twice; one tower per device.")
    present = get_num_gpu()
    for kind, index in parsed:
        # Soft placement would silently train on the CPU instead.
        if kind == "GPU" and index >= present:
            raise ConfigError(
                f"devices={list(devices)!r} names GPU {index}, but this host has {present} GPUs."
            )
    return list(devices)


def note_devices(devices: Sequence[str]) -> None:
    """Records in the current graph that there are towers on these devices."""
    tf.get_default_graph().get_collection_ref(_DEVICES).extend(devices)


def devices_of_towers(graph: tf.Graph) -> list[str]:
    """Returns the devices of a graph's towers, if builders have placed them."""
    return list(graph.get_collection(_DEVICES))


def check_session_has_towers(sess: tf.Session) -> None:
    """Checks that a session has the devices of all towers: soft placement would silently use other ones.

    Raises:
        ConfigError: a device is missing.
    """
    wanted = devices_of_towers(sess.graph)
    present = {_parse(device.name) for device in sess.list_devices()} if wanted else set()
    missing = [device for device in wanted if _parse(device) not in present]
    if missing:
        raise ConfigError(
            f"The session lacks {', '.join(missing)}, the devices of towers; they would run elsewhere. "
            f"Use TrainConfig(session_config=default_session_config({wanted!r})), changed as needed."
        )


def are_gpus(devices: Sequence[str]) -> bool:
    """Returns whether all devices are GPUs."""
    return all(_parse(device)[0] == "GPU" for device in devices)


def get_num_gpu() -> int:
    """Returns the number of GPUs that TensorFlow finds on this host."""
    return len(tf.config.list_physical_devices("GPU"))


def _first_devices(count: int) -> list[str]:
    if not _is_count(count) or count == 0:
        raise ConfigError(f"devices={count!r}: expected a list of devices, or their number, at least 1.")
    kind = "gpu" if get_num_gpu() else "cpu"
    if kind == "cpu" and count > 1:
        _log.warning(
            "There is no GPU on this host, so devices=%d trains on virtual CPU devices, which share the "
            "processor.",
            count,
        )
    return [f"/{kind}:{index}" for index in range(count)]


def _gpu_names(gpus: int | Sequence[int]) -> list[str]:
    numbers = list(range(gpus)) if _is_count(gpus) else gpus
    if (
        not isinstance(numbers, (list, tuple))
        or not numbers
        or not all(_is_count(number) for number in numbers)
    ):
        raise ConfigError(f"gpus={gpus!r}: expected the indices of GPUs, such as [0, 1], or their number.")
    return [f"/gpu:{number}" for number in numbers]


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _parse(device: str) -> tuple[str, int]:
    try:
        spec = tf.DeviceSpec.from_string(device)
        return spec.device_type.upper(), spec.device_index or 0
    except (AttributeError, TypeError, ValueError):
        raise ConfigError(
            f'devices=[...] received {device!r}; expected strings such as "/gpu:0" or "/cpu:1".'
        ) from None


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


def session_config_of_trainer(
    graph: tf.Graph, devices: Sequence[str] = (), several_steps: bool = True
) -> tf.ConfigProto:
    """Returns the options of `default_session_config`, with those that suit the graph of a trainer.

    Args:
        graph: the graph.
        devices: the devices of the towers, besides those in the graph.
        several_steps: whether a call may run several steps.
    """
    config = default_session_config([*devices, *devices_of_towers(graph)])
    if several_steps and config.intra_op_parallelism_threads == 1:
        _add_thread_pools(config)
    keep_ops_apart(config, graph)
    return config


def _add_thread_pools(config: tf.ConfigProto) -> None:
    """Adds TensorFlow's usual pool of threads to options of a session, and one of a single thread.

    Steps use the second one if they are faster without passing ops from one thread to another, as those of
    small networks are. Sessions of a server do not support pools.
    """
    for threads in (0, 1):  # 0: TensorFlow's number
        config.session_inter_op_thread_pool.add(num_threads=threads)


_GAINS_FROM_JOINING = re.compile("Conv|BatchNorm|BatchMatMul|Einsum")


def keep_ops_apart(config: tf.ConfigProto, graph: tf.Graph) -> None:
    """Keeps TensorFlow from joining matrix products with their biases and activations, in a small network.

    Each run of oneDNN's joined op takes 3 microseconds longer than the separate ones, in all a sixth of the
    step of a small network, and a third of its forward pass; with thousands of examples, it saves a few
    percent of a forward pass. Graphs with convolutions, attention or batch normalisation are unchanged:
    there, other joined ops save time.

    Args:
        config: options by `default_session_config`, which are changed.
        graph: the graph.
    """
    if config.intra_op_parallelism_threads != 1 or get_num_gpu():
        return
    if not any(_GAINS_FROM_JOINING.search(op.type) for op in graph.get_operations()):
        config.graph_options.rewrite_options.remapping = RewriterConfig.OFF


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
