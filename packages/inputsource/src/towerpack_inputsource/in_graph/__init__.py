"""Sources with tensors computed by TensorFlow."""

from ._constant_input import DummyConstantInput
from ._tensor_input import TensorInput
from ._tfdata_input import TFDatasetInput

__all__ = ["DummyConstantInput", "TFDatasetInput", "TensorInput"]
