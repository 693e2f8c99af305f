from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python.framework import kernels

from towerpack_layers import Conv1D, Conv2D, Conv2DTranspose, DepthwiseConv2D, SeparableConv2D

Run = Callable[..., Any]

LAYERS = {
    "plain": (Conv2D, {"filters": 5, "kernel_size": 3, "activation": tf.nn.relu}),
    "split": (Conv2D, {"filters": 8, "kernel_size": 3, "split": 2}),
    "dilation": (Conv2D, {"filters": 5, "kernel_size": 3, "dilation_rate": 2}),
    "transpose": (Conv2DTranspose, {"filters": 5, "kernel_size": 3, "strides": 2}),
    "depthwise": (DepthwiseConv2D, {"kernel_size": 3, "depth_multiplier": 2}),
    "separable": (SeparableConv2D, {"filters": 5, "kernel_size": 3}),
    "sequence": (Conv1D, {"filters": 5, "kernel_size": 3, "dilation_rate": 2}),
}
IMAGES = {name: layer for name, layer in LAYERS.items() if name != "sequence"}


def results(layer: Any, options: Any, x: np.ndarray, dtype: Any, data_format: str) -> list[np.ndarray]:
    """The output and the gradients of a layer on a batch of unknown size, by input and variables."""
    x = np.moveaxis(x, -1, 1) if data_format == "channels_first" else x
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(7)
        fed = tf.placeholder(dtype, [None, *x.shape[1:]])
        out = layer("c", fed, data_format=data_format, **options)
        gradients = tf.gradients(tf.square(out), [fed, *tf.trainable_variables()])
        session.run(tf.global_variables_initializer())
        values = session.run([out, *gradients], {fed: x})
    assert values[0].shape[1:] == tuple(out.shape[1:])
    first = data_format == "channels_first"
    turned = [np.moveaxis(value, 1, -1) if first else value for value in values[:2]]
    return [*turned, *values[2:]]


@pytest.mark.parametrize("name", LAYERS)
def test_a_batch_without_examples(name: str) -> None:
    """Which oneDNN gives another shape, and no gradient where there is a bias."""
    layer, options = LAYERS[name]
    x = np.ones([2, 8, 4] if name == "sequence" else [2, 8, 6, 4])
    some = results(layer, options, x, tf.float32, "channels_last")
    none = results(layer, options, x[:0], tf.float32, "channels_last")
    assert [value.shape[1:] for value in none[:2]] == [value.shape[1:] for value in some[:2]]
    assert [len(value) for value in none[:2]] == [0, 0]
    assert [value.shape for value in none[2:]] == [value.shape for value in some[2:]]
    assert not any(value.any() for value in none)


@pytest.mark.parametrize("name", IMAGES)
@pytest.mark.parametrize("dtype", [tf.float64, tf.float16], ids=lambda dtype: dtype.name)
def test_both_layouts_in_types_that_onednn_may_lack(name: str, dtype: Any) -> None:
    layer, options = IMAGES[name]
    x = np.random.default_rng(0).normal(size=[2, 8, 6, 4])
    last, first = (results(layer, options, x, dtype, form) for form in ("channels_last", "channels_first"))
    tolerance = 1e-12 if dtype == tf.float64 else 3e-2
    for a, b in zip(last, first, strict=True):
        assert a.dtype == dtype.as_numpy_dtype
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * np.abs(a).max())


@pytest.mark.parametrize("batch", [2, None])
def test_nothing_stands_between_kernel_bias_and_rectifier(graph: tf.Graph, batch: int | None) -> None:
    """So TensorFlow computes the three as one."""
    Conv2D("c", tf.placeholder(tf.float32, [batch, 8, 6, 4]), 5, 3, activation=tf.nn.relu)
    relu = next(op for op in graph.get_operations() if op.type == "Relu")
    assert [relu.inputs[0].op.type, relu.inputs[0].op.inputs[0].op.type] == ["BiasAdd", "Conv2D"]


def test_an_unknown_number_of_examples_changes_nothing(run: Run) -> None:
    images = np.random.default_rng(0).normal(size=[2, 8, 6, 4]).astype("f4")
    x = tf.placeholder(tf.float32, [None, 8, 6, 4])
    options = {"kernel_initializer": np.ones([3, 3, 4, 5]), "activation": tf.nn.relu}
    outs = [Conv2D("a", x, 5, 3, **options), Conv2D("b", tf.constant(images), 5, 3, **options)]
    a, b = run(outs, {x: images})
    assert np.array_equal(a, b)


def test_numbers_of_examples_stay_in_the_memory_of_the_host(graph: tf.Graph) -> None:
    """Otherwise, each layer on a GPU waits for copies of them."""
    Conv2D("c", tf.placeholder(tf.float32, [None, 8, 6, 4]), 5, 3)
    numbers = [op for op in graph.get_operations() if op.name.startswith("c/examples/")]
    for op in numbers:
        if op.outputs[0].dtype != tf.int32 or op.type == "Const":
            continue
        for kernel in kernels.get_registered_kernels_for_op(op.type).kernel:
            fits = all(
                op.get_attr(each.name).as_datatype_enum in each.allowed_values.list.type
                for each in kernel.constraint
            )
            if kernel.device_type == "GPU" and fits:
                assert op.op_def.output_arg[0].name in kernel.host_memory_arg, op.type


WITHOUT_ONEDNN = """
import numpy as np
import tensorflow.compat.v1 as tf
from towerpack_layers import AvgPooling, Conv2D, Conv2DTranspose, DepthwiseConv2D, MaxPooling

BUILD = [
    lambda x: Conv2D("c", x, 4, 3, data_format="NCHW", dilation_rate=2),
    lambda x: Conv2D("c", x, 4, 3, data_format="NCHW", split=2),
    lambda x: Conv2DTranspose("c", x, 4, 3, 2, data_format="NCHW"),
    lambda x: DepthwiseConv2D("c", x, 3, data_format="NCHW"),
    lambda x: AvgPooling("c", x, 2, data_format="NCHW"),
    lambda x: MaxPooling("c", x, 2, data_format="NCHW"),
]
for build in BUILD:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None, 2, 8, 8])
        out = build(x)
        session.run(tf.global_variables_initializer())
        for size in (2, 0):
            fed = {x: np.ones([size, 2, 8, 8])}
            value, gradient = session.run([out, tf.gradients(out, x)[0]], fed)
            assert value.shape == (size, *out.shape[1:]), (value.shape, out.shape)
            assert gradient.shape == (size, 2, 8, 8), gradient.shape
print("alive")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "switch",
    [
        pytest.param({"TF_ENABLE_ONEDNN_OPTS": "0"}, id="off"),
        pytest.param({}, id="of the processor", marks=pytest.mark.long),
    ],
)
def test_without_onednn(switch: dict[str, str]) -> None:
    """In a separate process, since TensorFlow reads the switch once; by default, the processor decides."""
    environment = {name: value for name, value in os.environ.items() if name != "TF_ENABLE_ONEDNN_OPTS"}
    environment |= switch
    command = [sys.executable, "-c", WITHOUT_ONEDNN]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, env=environment)
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr[-2000:]
