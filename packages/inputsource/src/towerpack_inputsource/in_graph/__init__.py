"""Sources with tensors computed by TensorFlow."""

from ._tensor_input import DummyConstantInput, TensorInput
from ._tfdata_input import TFDatasetInput

__all__ = ["DummyConstantInput", "TFDatasetInput", "TensorInput"]
