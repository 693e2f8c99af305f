"""Describes a training, and the machine and the versions that it runs on."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import platform
import sys
from collections import Counter
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import NamedTuple, final

import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callbacks, LoopState, explain_callbacks
from towerpack_callbacks.graph import find_ancestors, reads_variable
from towerpack_callbacks.writing import ENVIRONMENT, EXPLANATION, atomic_write
from towerpack_inputsource import InputSource

__all__ = [
    "ForwardCost",
    "collect_env_info",
    "describe_trainable_variables",
    "describe_training",
    "forward_cost",
    "record_run",
]

# Headings of right-aligned columns.
_NUMBERS = ("elements", "FLOPs")


def describe_training(
    trainer: str,
    devices: Sequence[str],
    loop: LoopState,
    source: InputSource | None,
    steps: str,
    callbacks: Callbacks,
) -> str:
    """Returns the text of `Trainer.explain()`.

    Args:
        trainer: the trainer's name.
        devices: the devices of its towers; empty: one device, chosen by TensorFlow.
        loop: the counters.
        source: the input; None without one.
        steps: the way in which steps are run, in whole lines; "" for one by one.
        callbacks: all callbacks, set up.
    """
    where = ", ".join(devices) or "one device"
    status = "none" if source is None else str(source.status())
    return (
        f"{trainer} on {where}, epochs {loop.starting_epoch} to {loop.max_epoch} "
        f"of {loop.steps_per_epoch} steps\n"
        f"input: {status}\n"
        f"{steps}"
        f"callbacks, in the order they run:\n{explain_callbacks(callbacks)}"
    )


def describe_trainable_variables(graph: tf.Graph, cost: tf.Tensor | Sequence[tf.Tensor] | None = None) -> str:
    """Returns a table of the trainable variables: name, shape, number of elements, dtype; and their sum.

    Args:
        graph: the graph. Copies of replicas (`tower1/…`) are omitted.
        cost: the cost of one tower, or a list of its predictions. If given, the table includes the
            floating-point operations of a forward pass for each variable, and the memory of the activations
            that gradients need: for one example if the batch size is unknown, otherwise for one batch.
    """
    spent = None if cost is None else forward_cost([cost] if tf.is_tensor(cost) else cost)
    rows = [["name", "shape", "elements", "dtype"]]
    total = size = 0
    for variable in graph.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES):
        if variable.op.name.startswith("tower"):
            continue
        elements = variable.shape.num_elements() or 0  # 0 also if the shape is unknown
        dtype = variable.dtype.base_dtype
        rows.append([variable.op.name, str(variable.shape), f"{elements:,}", dtype.name])
        total += elements
        size += elements * dtype.size
    count = len(rows) - 1
    if spent is not None:
        rows[0].append("FLOPs")
        for row in rows[1:]:
            row.append(f"{spent.flops.get(row[0], 0):,}")
    summary = f"{count} trainable variables, {total:,} elements, {size / 2**20:.2f} MiB"
    return "\n".join([*_table(rows), summary, *(_costs(spent) if spent is not None else [])])


def _costs(spent: ForwardCost) -> list[str]:
    flops = sum(spent.flops.values())
    return [
        f"forward: {flops:,} FLOPs; {spent.activation_bytes / 2**20:.2f} MiB of activations for gradients"
    ]


def _table(rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = [
        "  ".join(
            cell.rjust(width) if heading in _NUMBERS else cell.ljust(width)
            for cell, width, heading in zip(row, widths, rows[0])
        ).rstrip()
        for row in rows
    ]
    return [lines[0], "-" * max(map(len, lines)), *lines[1:]]


# Ops that perform nearly all of a network's arithmetic.
_PRODUCTS = {"BatchMatMulV2", "BatchMatMulV3", "Conv2D", "DepthwiseConv2dNative", "MatMul"}
# Ops that may stand between a variable and the op that uses it.
_PASSES_ON = {"Cast", "ExpandDims", "Identity", "Reshape", "Split", "Squeeze", "StridedSlice", "Transpose"}


@final
class ForwardCost(NamedTuple):
    """Costs for one example if the batch size is unknown, otherwise for one batch.

    Attributes:
        flops: multiplications and additions, keyed by the name of the variable; those between activations
            under "". Matrix products and convolutions count, also in unrolled loops, but not in the bodies
            of TensorFlow's loops.
        activation_bytes: the size of the results of the forward pass that gradients need; 0 without
            gradients.
    """

    flops: dict[str, int]
    activation_bytes: int


def forward_cost(outputs: Sequence[tf.Tensor]) -> ForwardCost:
    """Sums up the cost of the ops on which the given tensors depend; unknown sizes count as 1.

    Args:
        outputs: the cost of one tower, or its predictions.
    """
    forward = find_ancestors(outputs)
    flops: Counter[str] = Counter()
    kept: dict[str, int] = {}
    for op in forward:
        if op.type in _PRODUCTS:
            flops[_variable_of(op)] += _flops(op)
        for tensor in op.outputs:
            if _is_activation(op, tensor) and any(user not in forward for user in tensor.consumers()):
                kept[tensor.name] = _elements(tensor) * tensor.dtype.size
    return ForwardCost(dict(flops), sum(kept.values()))


def _flops(op: tf.Operation) -> int:
    """Two operations for each product of an activation and a weight."""
    left, right, out = op.inputs[0], op.inputs[1], op.outputs[0]
    if op.type == "MatMul":
        summed = _size(left, 0 if op.get_attr("transpose_a") else 1)
    elif op.type == "DepthwiseConv2dNative":
        summed = _size(right, 0) * _size(right, 1)
    elif op.type == "Conv2D":
        summed = _size(right, 0) * _size(right, 1) * _size(right, 2)
    else:
        summed = _size(left, -2 if op.get_attr("adj_x") else -1)
    return 2 * _elements(out) * summed


def _variable_of(op: tf.Operation) -> str:
    for tensor in op.inputs:
        source = tensor.op
        while source.type in _PASSES_ON:
            source = source.inputs[1 if source.type == "Split" else 0].op
        if reads_variable(source) and source.inputs:
            return str(source.inputs[0].op.name)
    return ""


def _is_activation(op: tf.Operation, tensor: tf.Tensor) -> bool:
    return bool(op.inputs) and not reads_variable(op) and tensor.dtype not in {tf.resource, tf.variant}


def _elements(tensor: tf.Tensor) -> int:
    sizes = tensor.shape.as_list() if tensor.shape.rank is not None else []
    return math.prod(size or 1 for size in sizes)


def _size(tensor: tf.Tensor, axis: int) -> int:
    return 1 if tensor.shape.rank is None else tensor.shape.as_list()[axis] or 1


_PACKAGES = (
    *(f"towerpack-{wheel}" for wheel in ("dataflow", "inputsource", "layers", "callbacks", "trainers")),
    *(
        "tensorflow",
        "keras",
        "numpy",
        "pyzmq",
        "msgpack",
        "cloudpickle",
        "opencv-python-headless",
        "gymnasium",
    ),
    *("lmdb", "h5py", "pyarrow", "mpi4py", "ray"),
)
# Alternative distributions of the same package.
_OTHER_NAMES = {
    "tensorflow": ("tf-nightly",),
    "keras": ("keras-nightly",),
    "opencv-python-headless": ("opencv-python", "opencv-contrib-python"),
}
# Variables that affect speed or results. No prefixes: `TOWERPACK_TOKEN` is a secret.
_SETTINGS = (
    *("CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "XLA_FLAGS"),
    *("NCCL_ALGO", "NCCL_DEBUG", "NCCL_IB_DISABLE", "NCCL_P2P_DISABLE", "NCCL_PROTO"),
    *("NCCL_SHM_DISABLE", "NCCL_SOCKET_IFNAME"),
    *("TF_CPP_MIN_LOG_LEVEL", "TF_CUDNN_DETERMINISTIC", "TF_CUDNN_USE_AUTOTUNE", "TF_DETERMINISTIC_OPS"),
    *("TF_ENABLE_ONEDNN_OPTS", "TF_FORCE_GPU_ALLOW_GROWTH", "TF_GPU_ALLOCATOR", "TF_GPU_THREAD_COUNT"),
    *("TF_GPU_THREAD_MODE", "TF_MKL_OPTIMIZE_PRIMITIVE_MEMUSE", "TF_NUM_INTEROP_THREADS"),
    *("TF_NUM_INTRAOP_THREADS", "TF_USE_LEGACY_KERAS", "TF_XLA_FLAGS"),
    "TOWERPACK_TRACE",
)


def collect_env_info() -> str:
    """Returns the versions, devices and settings of this process for a bug report, one per line.

    `python -m towerpack_trainers env` prints the same. Environment variables are included only if they are
    on a fixed list of settings of CUDA, TensorFlow, NCCL and Towerpack. `TOWERPACK_TOKEN`, `TF_CONFIG` and
    variables that merely begin like a listed one are excluded.

    Example:
        >>> print(collect_env_info())  # doctest: +ELLIPSIS
        system ...
    """
    versions = [(name, _version(name)) for name in _PACKAGES]
    rows = [*_machine(), *versions, *_build(), *_settings()]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:{width}}  {value}" for name, value in rows)


def _machine() -> list[tuple[str, str]]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return [
        ("system", platform.platform()),
        ("python", f"{platform.python_implementation()} {sys.version.split()[0]}"),
        ("cpu cores", f"{len(os.sched_getaffinity(0))} of {os.cpu_count()}"),
        ("memory", f"{memory:.1f} GiB"),
    ]


@functools.cache  # it takes 2 ms, and they are listed at each training
def _version(package: str) -> str:
    for name in (package, *_OTHER_NAMES.get(package, ())):
        with contextlib.suppress(metadata.PackageNotFoundError):
            return metadata.version(name) + (f" ({name})" if name != package else "")
    return "not installed"


def _build() -> list[tuple[str, str]]:
    build = tf.sysconfig.get_build_info()
    cuda = f"CUDA {build.get('cuda_version')}, cuDNN {build.get('cudnn_version')}"
    return [
        ("built for", cuda if build.get("is_cuda_build") else "CPU"),
        ("devices", ", ".join(map(_described, tf.config.list_physical_devices()))),
    ]


def _described(device: tf.config.PhysicalDevice) -> str:
    details = tf.config.experimental.get_device_details(device) if device.device_type == "GPU" else {}
    return f"{device.name.removeprefix('/physical_device:')} {details.get('device_name', '')}".rstrip()


def _settings() -> list[tuple[str, str]]:
    names = sorted(name for name in os.environ if name in _SETTINGS)
    return [(name, os.environ[name]) for name in names]


def record_run(log_dir: Path, explanation: str) -> None:
    """Writes `explain.txt` and `environment.txt` for this start of the run.

    A report of the run shows them. They are replaced when the run is resumed, perhaps on another machine or
    with other callbacks.

    Args:
        log_dir: the run's directory.
        explanation: the return value of `Trainer.explain()`.

    Raises:
        OSError: a file cannot be written.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     record_run(Path(folder), "SimpleTrainer on ...")
        ...     sorted(path.name for path in Path(folder).iterdir())
        ['environment.txt', 'explain.txt']
    """
    for name, text in ((EXPLANATION, explanation), (ENVIRONMENT, collect_env_info())):
        _write(log_dir / name, text)


def _write(path: Path, text: str) -> None:
    with atomic_write(path) as aside:
        aside.write_text(f"{text}\n", encoding="utf-8")
