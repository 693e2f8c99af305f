"""The contents of a bug report: versions, devices and machine of a training."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
from importlib import metadata
from pathlib import Path

import tensorflow as tf

from towerpack_callbacks.writing import ENVIRONMENT, EXPLANATION, atomic_write

__all__ = ["collect_env_info", "record_run"]


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
    rows = [*_machine(), *_versions(), *_build(), *_settings()]
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


def _versions() -> list[tuple[str, str]]:
    return [(name, _version(name)) for name in _PACKAGES]


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
