"""Processors that change or record gradients after their computation and before their application."""

from __future__ import annotations

import abc
import inspect
import logging
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf

from towerpack_callbacks import add_moving_summary

from .._argument_checks import check_function, check_number, compile_regex
from ._optimizer_wrappers import ProxyOptimizer, in_branch
from ._optimizers import (
    Pairs,
    check_pairs,
    describe_rows,
    map_values,
    sum_rows,
    values_of,
    variable_name,
)

__all__ = [
    "CheckGradient",
    "FilterNoneGrad",
    "GlobalNormClip",
    "GradientProcessor",
    "MapGradient",
    "PrintGradient",
    "ScaleGradient",
    "SummaryGradient",
    "apply_grad_processors",
]

_log = logging.getLogger("towerpack_trainers")


class GradientProcessor(abc.ABC):
    """Changes gradients before they are applied. Subclass it, and override `_process`.

    A gradient is a tensor, a `tf.IndexedSlices` (for example of an embedding), or None if the cost does not
    depend on the variable. The processors here keep None, except `FilterNoneGrad`; optimizers skip it.

    Example:
        >>> class Halve(GradientProcessor):
        ...     def _process(self, grads):
        ...         return [(None if grad is None else 0.5 * grad, variable) for grad, variable in grads]
    """

    def process(self, grads: Sequence[tuple[Any, tf.Variable]]) -> Pairs:
        """Processes gradients. It may be called several times, for the gradients of several towers.

        Args:
            grads: pairs of gradient and variable.

        Returns:
            Pairs of gradient and variable, for the same variables or some of them.

        Raises:
            TypeError: `grads`, or the result of `_process`, is not a list of pairs.
        """
        name = type(self).__name__
        with tf.name_scope(name):
            return check_pairs(f"{name}._process", self._process(check_pairs(f"{name}.process", grads)))

    @abc.abstractmethod
    def _process(self, grads: Pairs) -> Pairs:
        """Returns the pairs to apply."""


@final
class FilterNoneGrad(GradientProcessor):
    """Drops the variables without a gradient, and logs a warning.

    Example:
        >>> with tf.Graph().as_default():
        ...     used, unused = tf.get_variable("used", []), tf.get_variable("unused", [])
        ...     pairs = [(tf.constant(1.0), used), (None, unused)]
        ...     print(len(FilterNoneGrad().process(pairs)))
        1
    """

    def _process(self, grads: Pairs) -> Pairs:
        missing = [variable_name(variable) for gradient, variable in grads if gradient is None]
        if missing:
            _log.warning("FilterNoneGrad: no gradient for %s. They are not trained.", ", ".join(missing))
        return [pair for pair in grads if pair[0] is not None]


@final
class GlobalNormClip(GradientProcessor):
    """Scales all gradients by the same factor if their common norm exceeds a bound.

    After Pascanu, Mikolov and Bengio, "On the difficulty of training recurrent neural networks" (2013),
    arXiv:1211.5063. If the norm is not finite, all gradients become NaN, so that the error is noticed.

    Args:
        global_norm: the largest common norm of all gradients.

    Raises:
        ValueError: `global_norm` is not above 0.

    Example:
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     pairs = [(tf.constant([6.0, 8.0]), tf.get_variable("weight", [2]))]
        ...     [(clipped, _)] = GlobalNormClip(5.0).process(pairs)
        ...     print(session.run(clipped))
        [3. 4.]
    """

    def __init__(self, global_norm: float | tf.Tensor) -> None:
        self._bound = check_number("GlobalNormClip", "global_norm", global_norm, above=True)

    def _process(self, grads: Pairs) -> Pairs:
        # A row that occurs twice counts with its sum.
        once = [sum_rows(gradient) for gradient, _ in grads]
        clipped, _ = tf.clip_by_global_norm(once, self._bound)
        return list(zip(clipped, (variable for _, variable in grads)))


@final
class MapGradient(GradientProcessor):
    """Applies a function to each gradient of a variable with a matching name.

    Args:
        func: takes the gradient, or the gradient and the variable; returns the new gradient, or None to
            exclude the variable from the training. A sparse gradient is passed as a `tf.IndexedSlices` with
            unique rows.
        regex: matches the whole name, such as `conv0/W`, without the prefix of a tower. If there is no
            match, a warning is logged.

    Raises:
        TypeError: `func` is not a function of one or two arguments.
        ValueError: `regex` is not a regular expression.

    Example:
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     pairs = [(tf.constant([6.0, 8.0]), tf.get_variable("weight", [2]))]
        ...     [(half, _)] = MapGradient(lambda gradient: gradient / 2, "weight").process(pairs)
        ...     print(session.run(half))
        [3. 4.]
    """

    def __init__(self, func: Callable[..., Any], regex: str = ".*") -> None:
        name = type(self).__name__
        self._func = _with_variable(name, check_function(name, func))
        self._regex = compile_regex(name, regex)

    def _process(self, grads: Pairs) -> Pairs:
        matched = {id(v) for _, v in grads if self._regex.fullmatch(variable_name(v))}
        if not matched:
            _log.warning("%s(%r) matches no variable.", type(self).__name__, self._regex.pattern)
        pairs = [(self._map(g, v) if id(v) in matched else g, g, v) for g, v in grads]
        return [(new, variable) for new, old, variable in pairs if new is not None or old is None]

    def _map(self, gradient: Any, variable: tf.Variable) -> Any:
        return None if gradient is None else self._func(sum_rows(gradient), variable)


@final
class ScaleGradient(GradientProcessor):
    """Multiplies gradients by numbers that depend on the variable: learning rates per layer.

    Optimizers that divide by the size of the gradient, such as Adam, cancel any multiplier except 0.

    Args:
        multipliers: a pair of regular expression and number, or a list of pairs. The first one that matches a
            variable's whole name counts; 0 excludes the variable from the training.

    Raises:
        TypeError: `multipliers` has another type.
        ValueError: a string is not a regular expression.

    Example:
        ```python
        ScaleGradient([("conv0/.*", 0), (".*/b", 2.0)])
        ```
    """

    def __init__(self, multipliers: tuple[str, float] | Sequence[tuple[str, float]]) -> None:
        rules = [multipliers] if isinstance(multipliers, tuple) and _is_rule(multipliers) else multipliers
        if not isinstance(rules, (list, tuple)) or not all(map(_is_rule, rules)):
            raise TypeError(
                f'ScaleGradient received {multipliers!r}; expected a pair such as (".*/b", 2.0), or a list '
                "of them."
            )
        self._rules = [(compile_regex("ScaleGradient", regex), float(factor)) for regex, factor in rules]

    def _process(self, grads: Pairs) -> Pairs:
        processed = []
        for gradient, variable in grads:
            factor = self._factor(variable_name(variable))
            if factor != 1:
                _log.info(
                    "ScaleGradient: the gradient of %s counts %g times.", variable_name(variable), factor
                )
            if factor != 0:
                processed.append((_times(gradient, factor), variable))
        return processed

    def _factor(self, name: str) -> float:
        return next((factor for regex, factor in self._rules if regex.fullmatch(name)), 1.0)


@final
class _ProcessingOptimizer(ProxyOptimizer):
    """Processes gradients before another optimizer applies them."""

    def __init__(self, optimizer: tf.train.Optimizer, processors: Sequence[GradientProcessor]) -> None:
        super().__init__(optimizer)
        self._processors = processors

    def apply_gradients(
        self,
        grads_and_vars: Sequence[tuple[Any, tf.Variable]],
        global_step: tf.Variable | None = None,
        name: str | None = None,
    ) -> tf.Operation:
        grads = check_pairs("apply_gradients", grads_and_vars)
        for processor in self._processors:
            grads = processor.process(grads)
        if all(gradient is None for gradient, _ in grads):
            names = ", ".join(type(processor).__name__ for processor in self._processors)
            raise ValueError(f"No gradient is left to apply after {names}; there is nothing to train.")
        return super().apply_gradients(grads, global_step, name)


def apply_grad_processors(
    optimizer: tf.train.Optimizer, processors: Sequence[GradientProcessor]
) -> tf.train.Optimizer:
    """Makes an optimizer that processes gradients before it applies them.

    With several synchronous towers, the averaged gradients are processed, once.

    Args:
        optimizer: a `tf.train.Optimizer`.
        processors: the processors, in the order of their application.

    Raises:
        TypeError: `optimizer` is another object (for a Keras optimizer, the message names its replacement),
            or `processors` is not a list of `GradientProcessor`s.

    Example:
        ```python
        apply_grad_processors(tf.train.AdamOptimizer(1e-3), [GlobalNormClip(5.0), SummaryGradient()])
        ```
    """
    if not isinstance(processors, (list, tuple)) or not all(
        isinstance(processor, GradientProcessor) for processor in processors
    ):
        raise TypeError(
            f"apply_grad_processors received processors={processors!r}; expected a list of GradientProcessor "
            "objects, such as [GlobalNormClip(5.0)]."
        )
    return _ProcessingOptimizer(optimizer, list(processors))


def _with_variable(owner: str, func: Callable[..., Any]) -> Callable[[Any, tf.Variable], Any]:
    """Returns `func` as a function of gradient and variable."""
    signature = inspect.signature(func)
    for given, function in ((1, lambda gradient, _: func(gradient)), (2, func)):
        try:
            signature.bind(*range(given))
        except TypeError:
            continue
        return function
    raise TypeError(
        f"{owner}: func must take a gradient, or a gradient and a variable; it takes {signature}."
    )


def _is_rule(rule: Any) -> bool:
    return (
        isinstance(rule, tuple)
        and len(rule) == 2
        and isinstance(rule[0], str)
        and isinstance(rule[1], (int, float))
        and not isinstance(rule[1], bool)
    )


def _times(gradient: Any, factor: float) -> Any:
    return (
        gradient if gradient is None or factor == 1 else map_values(gradient, lambda values: values * factor)
    )


@final
class CheckGradient(GradientProcessor):
    """Fails the step when a gradient is infinite or not a number; the error names the variable.

    With `DynamicLossScaleOptimizer`, which expects such gradients, place it inside that optimizer.

    Example:
        >>> from towerpack_trainers.optimize import apply_grad_processors
        >>> with tf.Graph().as_default():
        ...     optimizer = apply_grad_processors(tf.train.AdamOptimizer(1e-3), [CheckGradient()])
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

    Example:
        >>> from towerpack_trainers.optimize import apply_grad_processors
        >>> with tf.Graph().as_default():
        ...     optimizer = apply_grad_processors(tf.train.AdamOptimizer(1e-3), [SummaryGradient(".*/W")])
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

    Example:
        >>> from towerpack_trainers.optimize import apply_grad_processors
        >>> with tf.Graph().as_default():
        ...     optimizer = apply_grad_processors(tf.train.AdamOptimizer(1e-3), [PrintGradient("fc0/.*")])
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
