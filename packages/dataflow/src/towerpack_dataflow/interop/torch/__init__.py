"""Flows for PyTorch; needs the extra `[torch]`.

* `DataLoader`: the batches of a flow as tensors, in place of `torch.utils.data.DataLoader`;
* `TorchDataset`: a dataset for programs that must keep `torch.utils.data.DataLoader`.
"""

from __future__ import annotations

try:
    import torch as _  # noqa: F401
except ImportError as error:
    raise ImportError(
        "towerpack_dataflow.interop.torch needs PyTorch: pip install 'towerpack-dataflow[torch]'"
    ) from error

from ._torch_dataset import TorchDataset
from ._torch_loader import DataLoader

__all__ = ["DataLoader", "TorchDataset"]
