"""The conformance kit of layers: one check for each expectation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, final

from ._layer_under_test import ConformanceError, LayerCase, LayerUnderTest
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
    run_apart,
)
from ._tower_checks import check_docstring, check_names, check_towers, check_wrong_inputs

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
    """The named checks of one layer, for separate tests; `check_layer` runs all of them.

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
        """Runs the check `empty batch` of many layers in one subprocess, and in a new one after a crash.

        Args:
            cases: the layers, with different names.

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
    """Checks the common expectations of layers, in training and in evaluation.

    The checks have these names:

    1. `names`: the output and the variables have the described names, inside the layer's scope.
    2. `towers`: a second tower and an evaluation share all variables, and the second tower computes the same.
    3. `outputs`: the outputs equal those of the reference, in float32 and, if supported, float64.
    4. `gradient`: the gradients by the input and by each trained variable equal the slopes of the reference
       along random directions.
    5. `finite differences`: in float64, the gradients equal the slopes of the layer's outputs.
    6. `data formats`: both data formats give the same outputs and gradients, with static and unknown sizes.
    7. `shapes`: the static shape matches that of the value; an unknown batch size, height or width does not
       change the numbers.
    8. `empty batch`: forward and backward passes work on an empty batch, with gradients of zeros. This runs
       in a subprocess, since some of TensorFlow's kernels crash.
    9. `half precision`: bfloat16 and float16 keep their dtype, are close to float32, and have finite
       gradients.
    10. `saved`: a checkpoint contains the variables by their names and is sufficient for an evaluation.
    11. `wrong inputs`: an input that is not a tensor, or has an unknown rank, raises an error that names the
        problem.
    12. `docstring`: the docstring describes each argument and the result, and has an example.

    Numbers are computed on the CPU, and distances are in ulp of the largest number, as in `ulp_distance`.
    Checks 3 and 4 are skipped for a layer without a reference; a layer with random numbers in training is
    compared in inference. A layer may refuse an input dtype by an error with the received dtype. The kit does
    not need pytest.

    Args:
        layer: a `LayerCase`, or a layer described by the other arguments.
        skip: names of checks to skip.
        **description: arguments of `LayerCase`, if `layer` is not one.

    Raises:
        ConformanceError: the layer violates an expectation; the message names the check.
        ValueError: a name in `skip` is not a check.

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
