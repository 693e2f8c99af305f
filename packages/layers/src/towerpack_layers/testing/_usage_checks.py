"""Checks of a layer's usability: errors for wrong inputs, and the docstring."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf

from ..tower import TowerContext
from ._layer_under_test import LayerUnderTest
from ._ulp_distance import ConformanceError, expect

__all__ = ["check_docstring", "check_wrong_inputs"]


def check_wrong_inputs(layer: LayerUnderTest) -> None:
    """Checks that wrong inputs raise a specific error before a variable is created."""
    case = layer.case
    _expect_error(
        "a str as the input",
        lambda: case.layer("layer", "image", **case.options),
        TypeError,
        "received str",
    )
    _expect_error(
        "an input of unknown rank",
        lambda: case.build(tf.placeholder(case.dtype)),
        ValueError,
        "rank",
    )


def check_docstring(layer: LayerUnderTest) -> None:
    """Checks that the docstring describes each argument and the result, and has an example."""
    text = inspect.getdoc(layer.case.layer) or ""
    for section in ("Args:", "Returns:", "Example:"):
        expect(section in text, f"the docstring must have a section {section!r}, received {text[:200]!r}")
    for parameter in inspect.signature(layer.case.layer.layer_info.function).parameters:
        described = any(f"    {stars}{parameter}: " in text for stars in ("", "*", "**"))
        expect(described, f"the docstring must describe {parameter!r} in its section 'Args:'")


def _expect_error(what: str, build: Callable[[], Any], error: type[Exception], text: str) -> None:
    wanted = f"{what} must raise a {error.__name__} that says {text!r}"
    with tf.Graph().as_default():
        try:
            with TowerContext("", is_training=True):
                build()
        except Exception as received:
            expect(
                isinstance(received, error) and text in str(received),
                f"{wanted}, received {type(received).__name__}: {received}",
            )
        else:
            raise ConformanceError(f"{wanted}, received no error.")
        made = [variable.name for variable in tf.global_variables()]
        expect(not made, f"{what} must raise its error before a variable is created, received {made}")
