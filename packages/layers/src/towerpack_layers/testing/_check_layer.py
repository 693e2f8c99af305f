"""What every layer is held to, by checks of which each looks at one expectation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, final

from ._empty_batches import run_apart
from ._layer_case import LayerCase
from ._layer_under_test import LayerUnderTest
from ._number_checks import (
    check_finite_differences,
    check_gradient,
    check_half_precision,
    check_outputs,
    check_saved,
)
from ._shape_checks import (
    check_data_formats,
    check_empty_batch,
    check_shapes,
    empty_batches,
    expect_no_failure,
)
from ._tower_checks import check_names, check_towers
from ._ulp_distance import ConformanceError
from ._usage_checks import check_docstring, check_wrong_inputs

__all__ = ["LayerChecks", "check_layer"]

_CHECKS: Mapping[str, Callable[[LayerUnderTest], None]] = {
    "names": check_names,
    "towers": check_towers,
    "outputs": check_outputs,
    "gradient": check_gradient,
    "finite differences": check_finite_differences,
    "data formats": check_data_formats,
    "shapes": check_shapes,
    "empty batch": check_empty_batch,
    "half precision": check_half_precision,
    "saved": check_saved,
    "wrong inputs": check_wrong_inputs,
    "docstring": check_docstring,
}


@final
class LayerChecks:
    """The checks of one layer, each by its name, for a test of each; `check_layer` runs all.

    Args:
        case: the layer.

    Example:
        >>> from towerpack_layers import FullyConnected
        >>> from towerpack_layers.testing import LayerCase, LayerChecks
        >>> checks = LayerChecks(LayerCase(FullyConnected, {"units": 5}, ("W", "b"), (4, 3)))
        >>> checks.run("names")
    """

    names = tuple(_CHECKS)

    def __init__(self, case: LayerCase) -> None:
        self._subject = LayerUnderTest(case)

    def run(self, name: str) -> None:
        """Runs one check.

        Args:
            name: one of `names`.

        Raises:
            ConformanceError: the layer does not do what is expected.
        """
        subject = self._subject
        try:
            _CHECKS[name](subject)
        except ConformanceError as error:
            raise ConformanceError(f"{subject.case.name}, {name}: {error}") from error.__cause__

    @staticmethod
    def run_empty_batches(cases: Sequence[LayerCase]) -> dict[str, ConformanceError | None]:
        """Runs the check `empty batch` of many layers in one other process, and in a new one if that ends.

        Args:
            cases: the layers, of different names.

        Returns:
            The error of each layer, by name, or `None`.
        """
        jobs = [(case, job) for case in cases for job in empty_batches(LayerUnderTest(case))]
        errors: dict[str, ConformanceError | None] = {case.name: None for case in cases}
        for (case, job), failure in zip(jobs, run_apart([job for _, job in jobs])):
            try:
                expect_no_failure(job, failure)
            except ConformanceError as error:
                errors[case.name] = errors[case.name] or error
        return errors


def check_layer(layer: Any, *, skip: Collection[str] = (), **description: Any) -> None:
    """Checks what users rely on with any layer, in training and in evaluation.

    Checked are, by these names:

    1. `names`: the output and the variables have the names that are described, inside the layer's scope.
    2. `towers`: a second tower and an evaluation share all variables, and the second tower computes the same.
    3. `outputs`: the outputs are those of the reference, in float32 and, where the layer takes it, float64.
    4. `gradient`: the gradients by the input and by each trained variable are the slopes of the reference,
       along random directions.
    5. `finite differences`: in float64, the gradients are the slopes of the layer's own outputs.
    6. `data formats`: both data formats give the same outputs and gradients, with static and unknown sizes.
    7. `shapes`: the static shape is that of the value; an unknown batch size, or height and width, change no
       number.
    8. `empty batch`: a batch without examples goes forward and backward, with gradients of zeros. This is
       tried in another process, as some of TensorFlow's kernels end theirs.
    9. `half precision`: bfloat16 and float16 keep their dtype, are near float32, and have finite gradients.
    10. `saved`: a checkpoint holds the variables by their names, and is all that an evaluation needs.
    11. `wrong inputs`: an input that is no tensor, or has no known rank, is refused by an error that says so.
    12. `docstring`: the docstring describes each argument and what is returned, and shows an example.

    Numbers are those of the CPU, and distances are in ulp of the largest number, as `ulp_distance` has it. A
    layer without a reference has no checks 3 and 4; one that draws random numbers in training is compared in
    inference. An input's dtype may be refused, by an error that says which dtype it received. It needs no
    pytest.

    Args:
        layer: a `LayerCase`, or a layer that the other arguments describe.
        skip: names of checks to leave out.
        **description: arguments of `LayerCase`, if `layer` is none.

    Raises:
        ConformanceError: the layer does not do what is expected; the message says which check it was.
        ValueError: there is no check of a name in `skip`.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import register_layer
        >>> from towerpack_layers.testing import check_layer
        >>> @register_layer
        ... def Scaled(x):
        ...     if not tf.is_tensor(x) or x.shape.rank is None:
        ...         raise (ValueError if tf.is_tensor(x) else TypeError)(
        ...             f"Scaled needs a tensor of known rank, received {type(x).__name__}.")
        ...     return x * tf.get_variable("by", [], x.dtype, tf.ones_initializer())
        >>> check_layer(Scaled, variables=("by",), reference=lambda x, v: x * v["by"], skip=["docstring"])
    """
    unknown = sorted(set(skip) - set(_CHECKS))
    if unknown:
        raise ValueError(f"check_layer: skip must name checks among {list(_CHECKS)}, received {unknown}.")
    case = layer if isinstance(layer, LayerCase) else LayerCase(layer, **description)
    checks = LayerChecks(case)
    for name in LayerChecks.names:
        if name not in skip:
            checks.run(name)
