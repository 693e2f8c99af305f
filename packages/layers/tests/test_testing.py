"""The conformance kit detects faults of a layer, each by the check named after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import FullyConnected, get_current_tower_context, register_layer
from towerpack_layers.testing import ConformanceError, LayerCase, LayerChecks, check_layer, ulp_distance


def make(function: Callable[..., Any]) -> Any:
    """Registers a function under a name that no other test has."""
    return register_layer(function)


def check_input(x: Any) -> None:
    if not tf.is_tensor(x):
        raise TypeError(f"The input must be a tensor, received {type(x).__name__}.")
    if x.shape.rank is None:
        raise ValueError("The input's rank must be known.")


def weight(x: tf.Tensor, name: str = "by") -> Any:
    return tf.get_variable(name, [x.shape[-1]], x.dtype, tf.ones_initializer())


@make
def ScaledWell(x: Any) -> Any:
    """Multiplies each channel by a number.

    Args:
        x: the input.

    Returns:
        A tensor of its shape.

    Example:
        ScaledWell("scaled", x)
    """
    check_input(x)
    return x * weight(x)


@make
def WithoutCheck(x: Any) -> Any:
    return tf.identity(x)


@make
def ChecksTooLate(x: Any) -> Any:
    by = tf.get_variable("by", [3])
    check_input(x)
    return x * by


@make
def RefusesWithoutSaying(x: Any) -> Any:
    if not tf.is_tensor(x):
        raise TypeError("The input is wrong.")
    return x * 1


@make
def MisnamesVariable(x: Any) -> Any:
    return x * weight(x, "scale")


@make
def MakesVariableInTrainingOnly(x: Any) -> Any:
    return x * weight(x) if get_current_tower_context().is_training else x


@make
def MakesOwnVariable(x: Any) -> Any:
    return x * tf.Variable(tf.ones([3]), name="by")


@make
def AddsOneInTheLastPlaces(x: Any) -> Any:
    return x * weight(x) * (1 + 1e-5)


@make
def ForgetsTheLastElement(x: Any) -> Any:
    mask = tf.concat([tf.ones_like(x)[:, 1:], tf.zeros_like(x)[:, :1]], 1)
    return x * weight(x) * mask


@make
def StopsGradient(x: Any) -> Any:
    return x * tf.stop_gradient(weight(x))


@make
def HasWrongGradient(x: Any) -> Any:
    @tf.custom_gradient
    def square(value: Any) -> Any:
        return value * value, lambda dy: 2.001 * value * dy

    return square(x)


@make
def ConfusesFormats(x: Any, data_format: str = "channels_last") -> Any:
    # Right in one format; in the other one, the last axis is the width, which has the same size here.
    return x * tf.get_variable("by", [3], x.dtype, tf.ones_initializer())


@make
def LosesStaticShape(x: Any) -> Any:
    return tf.placeholder_with_default(x, [None] * x.shape.rank)


@make
def BakesInBatchSize(x: Any) -> Any:
    size = x.shape.as_list()[0] or 4
    return tf.reshape(x, [size, *x.shape[1:]])


@make
def DividesByBatchSize(x: Any) -> Any:
    return x * (weight(x) / tf.cast(tf.shape(x)[0], x.dtype))


@make
def EndsTheProcess(x: Any) -> Any:
    def abort() -> Any:
        with tf.control_dependencies([tf.raw_ops.Abort(error_msg="no examples")]):
            return tf.identity(x)

    if x.shape.as_list()[0] is not None:
        return x * 1
    return tf.cond(tf.equal(tf.size(x), 0), abort, lambda: tf.identity(x))


@make
def ComputesInFloat32(x: Any) -> Any:
    return tf.cast(x, tf.float32) * tf.cast(weight(x), tf.float32)


@make
def MixesDtypes(x: Any) -> Any:
    return x * tf.get_variable("by", [3], tf.float32, tf.ones_initializer())


@make
def HidesState(x: Any) -> Any:
    return x * tf.constant(np.random.default_rng().normal(size=[3]), x.dtype)


def scaled(x: np.ndarray, variables: Any) -> np.ndarray:
    return x * variables["by"]


SQUARE = {"shape": (4, 3, 3, 3)}
BY = {"variables": ("by",), "shape": (4, 3)}
SCALED = {**BY, "reference": scaled}

BROKEN = [
    (WithoutCheck, {}, "wrong inputs", "a str as the input must raise a TypeError .*received no error"),
    (ChecksTooLate, BY, "wrong inputs", r"must raise its error before a variable .*\['layer/by:0'\]"),
    (RefusesWithoutSaying, {}, "wrong inputs", "says 'received str', received TypeError: The input is wrong"),
    (MisnamesVariable, BY, "names", r"the variables must be \['by'\] .*, received \['scale'\]"),
    (MakesVariableInTrainingOnly, BY, "names", r"in inference, the variables must be .* received \[\]"),
    (MakesOwnVariable, BY, "towers", r"tower 0 of 2 must share .* \['by'\], received \['tower0/layer/by'\]"),
    (AddsOneInTheLastPlaces, SCALED, "outputs", r"within 32 ulp of float32, received 8\d(\.\d)? ulp"),
    (ForgetsTheLastElement, SCALED, "outputs", r"expected -?\d.* at \[\d, 2\], received -?0\."),
    (StopsGradient, SCALED, "gradient", "the gradient by by must be the slope of the reference, in float32"),
    (HasWrongGradient, {"shape": (4, 3)}, "finite differences", "must be the slope of the outputs"),
    (
        ConfusesFormats,
        {**SQUARE, "variables": ("by",)},
        "data formats",
        "with data_format='channels_first' .*, the output must be within 32 ulp",
    ),
    (LosesStaticShape, {"shape": (4, 3)}, "shapes", r"static shape of its value, \[4, 3\], received \[None"),
    (BakesInBatchSize, {"shape": (4, 3)}, "shapes", r"the static shape \[None, 3\], received \[4, 3\]"),
    (ComputesInFloat32, BY, "half precision", "must have this dtype, received float32"),
    (MixesDtypes, BY, "half precision", "with 'received bfloat16', received TypeError"),
    (HidesState, {"shape": (4, 3)}, "saved", "check for state outside of variables"),
    (WithoutCheck, {}, "docstring", "must have a section 'Args:', received ''"),
]


@pytest.mark.parametrize(
    ("layer", "description", "check", "message"),
    BROKEN,
    ids=[f"{row[0].layer_name}-{row[2]}" for row in BROKEN],
)
def test_a_fault_is_found(layer: Any, description: Any, check: str, message: str) -> None:
    checks = LayerChecks(LayerCase(layer, **{"shape": (4, 3), **description}))
    with pytest.raises(ConformanceError, match=f"^{layer.layer_name}, {check}: .*{message}"):
        checks.run(check)


def test_nothing_is_found_without_a_fault() -> None:
    check_layer(ScaledWell, skip=["empty batch"], **SCALED)  # which has a separate test, in another process


def test_the_first_broken_expectation_is_raised() -> None:
    with pytest.raises(ConformanceError, match="MisnamesVariable, names: "):
        check_layer(MisnamesVariable, **BY)
    with pytest.raises(ConformanceError, match="MisnamesVariable, towers: "):
        check_layer(MisnamesVariable, skip=["names"], **BY)


def test_an_unknown_check_cannot_be_skipped() -> None:
    with pytest.raises(ValueError, match=r"skip must name checks among \['names', .*received \['name'\]"):
        check_layer(ScaledWell, skip=["name"], **SCALED)


def test_a_reference_gives_the_distance_of_a_layer() -> None:
    case = LayerCase(
        FullyConnected, {"units": 2}, ("W", "b"), (4, 3), reference=lambda x, v: x @ v["W"] + 2 * v["b"]
    )
    with pytest.raises(ConformanceError, match=r"FullyConnected, outputs: the output in float32 must be"):
        LayerChecks(case).run("outputs")


@pytest.mark.long
@pytest.mark.slow
def test_empty_batches_of_many_layers() -> None:
    good = LayerCase(FullyConnected, {"units": 2}, ("W", "b"), (4, 3))
    ends, divides = (LayerCase(layer, shape=(4, 3)) for layer in (EndsTheProcess, DividesByBatchSize))
    errors = LayerChecks.run_empty_batches([ends, good, divides])
    assert list(errors) == ["EndsTheProcess", "FullyConnected", "DividesByBatchSize"]
    assert "with an unknown batch size, must work" in str(errors["EndsTheProcess"])
    assert "the process ended with SIGABRT: " in str(errors["EndsTheProcess"])
    assert errors["FullyConnected"] is None
    assert "expected a gradient of zeros by by, received [nan nan nan]" in str(errors["DividesByBatchSize"])


@pytest.mark.parametrize(
    ("received", "expected", "distance"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([1.0, 2.0 + 2**-22], [1.0, 2.0], 1.0),
        ([1e-3 + 2**-22, 2.0], [1e-3, 2.0], 1.0),  # an ulp is that of the largest element
        ([np.nan, 2.0], [1.0, 2.0], np.inf),
        ([np.nan, 2.0], [np.nan, 2.0], 0.0),
        ([np.inf, 2.0], [-np.inf, 2.0], np.inf),
        ([], [], 0.0),
    ],
)
def test_ulp_distance(received: list[float], expected: list[float], distance: float) -> None:
    found = ulp_distance(np.array(received), np.array(expected), tf.float32)
    assert found == pytest.approx(distance, rel=1e-3)


def test_an_ulp_is_that_of_the_dtype() -> None:
    one, more = np.array([1.0]), np.array([1.0 + 2**-7])
    assert ulp_distance(more, one, tf.bfloat16) == 1.0
    assert ulp_distance(more, one, tf.float16) == 8.0
