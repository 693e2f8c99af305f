"""Gradient processors that check, record or print gradients without changing their values."""

from __future__ import annotations

import abc
import sys
import threading
import weakref
from collections.abc import Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf

from towerpack_callbacks import add_moving_summary

from .._argument_checks import compile_regex
from ._conditional_updates import in_branch
from ._gradient_processors import GradientProcessor
from ._gradient_values import Pairs, describe_rows, map_values, sum_rows, values_of, variable_name

__all__ = ["CheckGradient", "PrintGradient", "SummaryGradient"]


@final
class CheckGradient(GradientProcessor):
    """Fails the step when a gradient is infinite or not a number; the error names the variable.

    With `DynamicLossScaleOptimizer`, which expects such gradients, place it inside that optimizer.
    """

    def _process(self, grads: Pairs) -> Pairs:
        return [(_checked(gradient, variable_name(variable)), variable) for gradient, variable in grads]


class _OnceInGraph(GradientProcessor):
    """Observes the gradient of each matching variable once per graph: on the first of several towers."""

    def __init__(self, regex: str = ".*") -> None:
        self._regex = compile_regex(type(self).__name__, regex)
        self._seen: weakref.WeakKeyDictionary[tf.Graph, set[str]] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    def _process(self, grads: Pairs) -> Pairs:
        return [
            (self._observe(gradient, variable) if self._is_due(gradient, variable) else gradient, variable)
            for gradient, variable in grads
        ]

    def _is_due(self, gradient: Any, variable: tf.Variable) -> bool:
        name = variable_name(variable)
        if gradient is None or not self._regex.fullmatch(name):
            return False
        with self._lock:
            seen = self._seen.setdefault(variable.graph, set())
            due = name not in seen
            seen.add(name)
        return due

    @abc.abstractmethod
    def _observe(self, gradient: Any, variable: tf.Variable) -> Any:
        """Adds ops that observe the gradient; returns it, with control dependencies on them if needed."""


@final
class SummaryGradient(_OnceInGraph):
    """Records a histogram of each gradient, and the moving average of its root mean square.

    The names are `<variable>-grad/histogram` and `<variable>-grad/rms`. For a sparse gradient, the histogram
    shows the touched rows, and the root mean square counts the others as 0.

    Args:
        regex: matches the variable's whole name.
        collections: collections of the histograms; None: `tf.GraphKeys.SUMMARIES`.

    Raises:
        ValueError: `regex` is not a regular expression; or (in `process`) gradients are applied
            conditionally.
    """

    def __init__(self, regex: str = ".*", collections: Sequence[str] | None = None) -> None:
        super().__init__(regex)
        self._collections = None if collections is None else list(collections)

    def _observe(self, gradient: Any, variable: tf.Variable) -> Any:
        name = f"{variable_name(variable)}-grad"
        if in_branch():
            raise ValueError(
                "SummaryGradient is inside an optimizer that applies gradients conditionally, where nothing "
                "can be recorded. Wrap that optimizer instead, as "
                "apply_grad_processors(AccumGradOptimizer(...), [SummaryGradient()])."
            )
        values = values_of(sum_rows(gradient))
        with tf.name_scope(None):  # the names are those of the statistics
            tf.summary.histogram(f"{name}/histogram", values, collections=self._collections)
            total = tf.reduce_sum(tf.square(tf.cast(values, tf.float32)))
            size = max(variable.shape.num_elements() or 1, 1)
            add_moving_summary(tf.sqrt(total / size, name=f"{name}/rms"))
        return gradient


@final
class PrintGradient(_OnceInGraph):
    """Prints gradients to standard error at every step, for debugging.

    Args:
        regex: matches the variable's whole name.
        summarize: the number of values to print at each end of an axis.

    Raises:
        ValueError: `regex` is not a regular expression.
    """

    def __init__(self, regex: str = ".*", summarize: int = 3) -> None:
        super().__init__(regex)
        self._summarize = summarize

    def _observe(self, gradient: Any, variable: tf.Variable) -> Any:
        shown = [f"{variable_name(variable)}-grad:", *describe_rows(gradient)]
        printed = tf.print(*shown, output_stream=sys.stderr, summarize=self._summarize)
        with tf.control_dependencies([printed]):
            return map_values(gradient, tf.identity)


def _checked(gradient: Any, name: str) -> Any:
    if gradient is None:
        return None
    message = f"CheckGradient: the gradient of {name}"
    return map_values(gradient, lambda values: tf.debugging.check_numerics(values, message))
