"""Shared code of layers: argument checks, kernels and biases, and computation on images of any layout."""

from ._image_kernels import (
    axis_sizes,
    compute_examples,
    compute_images,
    has_all_kernels,
    nonempty_batches,
    static_sizes,
)
from ._kernel_and_bias import KernelAndBias, TensorFunction, resolve_initializer
from ._layer_arguments import (
    DataFormat,
    check_channels,
    check_count,
    check_data_format,
    check_function,
    check_not_both,
    check_padding,
    check_pair,
    check_rank,
    is_number,
    layer_label,
)
from ._window_shapes import shape2d, shape4d

__all__ = [
    "DataFormat",
    "KernelAndBias",
    "TensorFunction",
    "axis_sizes",
    "check_channels",
    "check_count",
    "check_data_format",
    "check_function",
    "check_not_both",
    "check_padding",
    "check_pair",
    "check_rank",
    "compute_examples",
    "compute_images",
    "has_all_kernels",
    "is_number",
    "layer_label",
    "nonempty_batches",
    "resolve_initializer",
    "shape2d",
    "shape4d",
    "static_sizes",
]
