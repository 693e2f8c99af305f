"""Gives Tensorpack 0.11 the host that its examples ask for: GPUs, `tf.contrib`, and files of the internet."""

from __future__ import annotations

import contextlib
import os
import types
from pathlib import Path
from typing import Any

import numpy as np
import old_contrib
import tensorflow as tf  # TensorFlow 1's interface, by `prepare` of compute.py
from tensorflow.python.framework import graph_util

__all__ = ["prepare_tensorpack"]


def prepare_tensorpack() -> None:
    """Prepares this process, whose module `tensorflow` has TensorFlow 1's interface, and its children."""
    old_contrib.install()
    # Its export takes the function from a module that had it.
    vars(graph_util).update(convert_variables_to_constants=tf.graph_util.convert_variables_to_constants)
    os.environ["PYTHONPATH"] += f"{os.pathsep}{Path(__file__).parent / 'workers'}"
    _without_downloads()
    _with_layouts()
    if os.environ["CUDA_VISIBLE_DEVICES"]:
        _with_gpus()


def _without_downloads() -> None:
    """Gives Tensorpack pictures for CIFAR, whose made data are in another format, and Caffe's message."""
    from tensorpack.dataflow.dataset import cifar, ilsvrc

    pictures = np.random.randint(0, 256, (512, 32, 32, 3)).astype("uint8")
    cifar.maybe_download_and_extract = lambda *_: None
    cifar.get_filenames = lambda *_: ([__file__], [__file__], __file__)
    cifar.read_cifar = lambda _files, count: [[each, i % count] for i, each in enumerate(pictures)]
    cifar._parse_meta = lambda _file, count: [str(each) for each in range(count)]
    ilsvrc.get_caffe_pb = lambda: types.SimpleNamespace(BlobProto=_Blob)


def _with_layouts() -> None:
    """Lets TensorFlow convert the layout NCHW, as towerpack-compat does: so the kernels are the same."""
    from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

    first = tf.Session.__init__

    def make_session(self: Any, target: str = "", graph: Any = None, config: Any = None) -> None:
        config = config or tf.ConfigProto()
        rewriting = config.graph_options.rewrite_options
        rewriting.cpu_layout_conversion = RewriterConfig.NCHW_TO_NHWC
        first(self, target, graph, config)

    tf.Session.__init__ = make_session


class _Blob:
    """Caffe's message of a mean picture, for which Tensorpack downloads the description."""

    def ParseFromString(self, message: bytes) -> None:
        """Reads the data, which are at the end."""
        self.data = np.frombuffer(message[-3 * 256 * 256 * 4 :], "<f4")


def _with_gpus() -> None:
    """Makes Tensorpack count the GPUs of CUDA_VISIBLE_DEVICES, as a dry run of towerpack-compat does."""
    from tensorpack.callbacks import GPUUtilizationTracker
    from tensorpack.utils import gpu

    class Driver(contextlib.AbstractContextManager):  # type: ignore[type-arg]
        def __exit__(self, *_error: object) -> None:
            pass

        def num_devices(self) -> int:
            return 8

    gpu.NVMLContext = Driver
    tf.test.is_gpu_available = lambda *_, **__: True
    for name in ("_setup_graph", "_before_train", "_before_epoch"):
        setattr(GPUUtilizationTracker, name, lambda _self: None)
