"""The signature of an exported model: tensors by the names of inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import final

import attrs
import tensorflow.compat.v1 as tf

from towerpack_callbacks.graph import find_ancestors

from .._errors import ExportError
from ..predict import OfflinePredictor, PredictConfig

__all__ = ["Signature"]


@final
@attrs.frozen(eq=False)
class Signature:
    """The inputs and outputs of an exported function.

    Attributes:
        inputs: the tensors to feed, by name.
        outputs: the tensors to fetch, by name.
    """

    inputs: Mapping[str, tf.Tensor]
    outputs: Mapping[str, tf.Tensor]

    @classmethod
    def of(cls, predictor: OfflinePredictor, config: PredictConfig) -> Signature:
        """Returns the checked signature of a predictor.

        Raises:
            ExportError: there is no output, an output needs an input that is not named, or a named input is
                not needed.
        """
        outputs = _by_name(config.output_names, predictor.outputs)
        if not outputs:
            raise ExportError("There is nothing to export: output_names is empty. Name an output.")
        if config.input_names is None:
            # All inputs of the model, including those of the cost only.
            needed = _needed(predictor.inputs, outputs.values())
            inputs = {tensor.op.name: tensor for tensor in predictor.inputs if tensor.name in needed}
        else:
            inputs = _by_name(config.input_names, predictor.inputs)
        signature = cls(inputs, outputs)
        signature._check()
        return signature

    def _check(self) -> None:
        outputs = ", ".join(self.outputs)
        needed = _needed(self.inputs.values(), self.outputs.values())
        idle = [name for name, tensor in self.inputs.items() if tensor.name not in needed]
        if idle:
            raise ExportError(
                f"No output ({outputs}) depends on the input {', '.join(idle)}. Remove it from input_names."
            )
        ancestors = find_ancestors(self.outputs.values(), self.inputs.values())
        missing = sorted(op.name for op in ancestors if op.type == "Placeholder")
        if missing:
            raise ExportError(
                f"The outputs {outputs} need the input {', '.join(missing)}, which is not in "
                f"input_names={list(self.inputs)}. Add it, or export outputs that do not need it."
            )


def _by_name(names: Sequence[str], tensors: Sequence[tf.Tensor]) -> dict[str, tf.Tensor]:
    return {name.removesuffix(":0"): tensor for name, tensor in zip(names, tensors)}


def _needed(inputs: Iterable[tf.Tensor], outputs: Iterable[tf.Tensor]) -> set[str]:
    """Returns the names of all tensors on which the outputs depend."""
    outputs = list(outputs)
    ancestors = find_ancestors(outputs, inputs)
    return {tensor.name for op in ancestors for tensor in op.inputs} | {tensor.name for tensor in outputs}
