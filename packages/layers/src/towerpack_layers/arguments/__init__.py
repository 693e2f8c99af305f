"""What layers share before they compute: checked arguments, and the making of kernels and biases."""

from ._kernel_and_bias import KernelAndBias, TensorFunction, resolve_initializer
from ._layer_arguments import (
    DataFormat,
    check_channels,
    check_count,
    check_data_format,
    check_function,
    check_padding,
    check_pair,
    check_rank,
    is_number,
    layer_label,
)

__all__ = [
    "DataFormat",
    "KernelAndBias",
    "TensorFunction",
    "check_channels",
    "check_count",
    "check_data_format",
    "check_function",
    "check_padding",
    "check_pair",
    "check_rank",
    "is_number",
    "layer_label",
    "resolve_initializer",
]
