"""The losses and metrics of a Keras model, computed by Keras's own objects, with masks and sample weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

from .._errors import ConfigError

__all__ = ["OutputMetric", "class_weights", "cost_of", "entries_of", "losses_of", "metrics_of"]

_ACCURACIES = ("accuracy", "acc")


@final
@attrs.frozen
class OutputMetric:
    """A metric of one output.

    Attributes:
        name: the name of the statistic.
        place: the index of the output.
        choices: the metric; for "accuracy", the three candidates from which the shapes select one.
        weighted: whether sample weights count.
    """

    name: str
    place: int
    choices: tuple[Any, ...]
    weighted: bool

    def value(self, target: tf.Tensor, output: tf.Tensor, weight: tf.Tensor | None) -> tf.Tensor:
        """Returns the metric of a batch, with masks and weights, as a scalar."""
        metric = self.choices[_kind(target, output) if len(self.choices) > 1 else 0]
        with tf.name_scope("metrics"):  # Keras opens scopes under the names that the statistics need
            value = self._of_batch(metric, target, output, weight if self.weighted else None)
        return tf.identity(value, name=self.name)

    def _of_batch(self, metric: Any, target: tf.Tensor, output: tf.Tensor, weight: tf.Tensor | None) -> Any:
        empty = [tf.zeros(variable.shape, variable.dtype) for variable in metric.variables]
        state = metric.stateless_update_state(empty, target, output, sample_weight=weight)
        return tf.cast(metric.stateless_result(state), tf.float32)


def entries_of(argument: str, given: Any, names: Sequence[str]) -> list[Any]:
    """Returns one entry for each output, from a list or from a dict keyed by the names of the targets.

    Raises:
        ConfigError: the number of entries differs from the number of targets.
    """
    expected = f"expected one for each of the targets {', '.join(names)}"
    if isinstance(given, Mapping):
        if set(given) != set(names):
            raise ConfigError(
                f"KerasModel.compile({argument}=...) received a dict with {', '.join(map(str, given))}; "
                f"{expected}."
            )
        return [given[name] for name in names]
    listed = list(given)
    if len(listed) != len(names):
        raise ConfigError(
            f"KerasModel.compile({argument}=...) received {len(listed)} entries for {len(names)} targets; "
            f"{expected}."
        )
    return listed


def losses_of(given: Any, names: Sequence[str]) -> list[Any]:
    """Returns the loss of each output. A single loss applies to every output; None means no loss.

    Raises:
        ConfigError: the number of losses differs from the number of targets, or Keras has no such loss.
    """
    several = isinstance(given, (list, tuple, Mapping))
    losses = entries_of("loss", given, names) if several else [given] * len(names)
    if not any(loss is not None for loss in losses):
        raise ConfigError(f"KerasModel.compile(loss={given!r}) has no loss; there is nothing to train.")
    return [loss if loss is None else _checked_loss(loss) for loss in losses]


def _checked_loss(wanted: Any) -> Any:
    import keras  # takes half a second, so only users of Keras models import it

    found = wanted
    if isinstance(wanted, str) and wanted.lower() not in ("crossentropy", "ce"):
        try:
            found = keras.losses.get(wanted)
        except ValueError:
            found = None
    if not callable(found) and not isinstance(found, str):
        raise ConfigError(
            f"KerasModel.compile(loss=...) received {wanted!r}; expected the name of a function in "
            f"keras.losses, a loss object, or a function of targets and outputs."
        )
    if isinstance(found, keras.losses.Loss) and found.reduction in (None, "none"):
        raise ConfigError(
            f"KerasModel.compile(loss=...) received {wanted!r} with reduction={found.reduction!r}, which is "
            'one number for each example; expected a single number. Use reduction="sum".'
        )
    return wanted


def cost_of(
    losses: Sequence[Any],
    loss_weights: Sequence[float] | None,
    targets: Sequence[tf.Tensor],
    outputs: Sequence[tf.Tensor],
    weights: Sequence[tf.Tensor | None],
) -> tf.Tensor:
    """Returns the sum of the losses as Keras's `compile` defines it, without the losses of regularizers."""
    from keras.src.trainers.compile_utils import get_loss

    terms = []
    with tf.name_scope("losses"):
        for place, (loss, target, output, weight) in enumerate(zip(losses, targets, outputs, weights)):
            if loss is not None:
                term = get_loss(loss, target, output)(target, output, sample_weight=weight)
                terms.append(term if loss_weights is None else term * loss_weights[place])
        return tf.add_n(terms)


def metrics_of(argument: str, given: Any, names: Sequence[str]) -> list[OutputMetric]:
    """Returns the metrics. Those of one output are a name, an object, a function, or a list of these.

    Args:
        argument: "metrics" or "weighted_metrics".
        given: for one output, its metrics; for several, a list with an entry for each, a dict keyed by the
            names of the targets, or the metrics of the first output alone.
        names: the names of the targets.

    Raises:
        ConfigError: an entry belongs to no output, or a metric is not supported.
    """
    single = len(names) == 1
    if isinstance(given, Mapping):
        if unknown := set(given) - set(names):
            raise ConfigError(
                f"KerasModel.compile({argument}=...) received a dict with {', '.join(sorted(unknown))}; "
                f"expected names of targets: {', '.join(names)}."
            )
        entries = [given.get(name, ()) for name in names]
    elif single or not given or not isinstance(given, (list, tuple)):
        entries = [given, *[()] * (len(names) - 1)]
    else:
        entries = entries_of(argument, given, names)
    named = not single and isinstance(given, (list, tuple, Mapping))
    return [
        OutputMetric(
            f"{name}_{_name_of(wanted)}" if named else _name_of(wanted),
            place,
            _choices(argument, wanted),
            argument == "weighted_metrics",
        )
        for place, (name, entry) in enumerate(zip(names, entries))
        for wanted in _listed(entry)
    ]


def _listed(entry: Any) -> list[Any]:
    if entry is None:
        return []
    return list(entry) if isinstance(entry, (list, tuple)) else [entry]


def _name_of(wanted: Any) -> str:
    if isinstance(wanted, str):
        return wanted
    return str(getattr(wanted, "name", None) or getattr(wanted, "__name__", type(wanted).__name__))


def _choices(argument: str, wanted: Any) -> tuple[Any, ...]:
    """Returns the metric objects. Their variables live in a separate graph, since their state is not used."""
    import keras

    metrics = keras.metrics
    with tf.Graph().as_default():
        if wanted in _ACCURACIES:
            return (
                metrics.BinaryAccuracy(),
                metrics.SparseCategoricalAccuracy(),
                metrics.CategoricalAccuracy(),
            )
        try:
            found = metrics.get(wanted)
        except ValueError:
            found = None
        if callable(found) and not isinstance(found, metrics.Metric):
            found = metrics.MeanMetricWrapper(found, name=_name_of(wanted))
    if found is None:
        raise ConfigError(
            f"KerasModel.compile({argument}=...) received {wanted!r}; expected the name of a function in "
            f"keras.losses or keras.metrics, or a function of targets and outputs."
        )
    if not isinstance(found, metrics.MeanMetricWrapper):
        raise ConfigError(
            f"KerasModel.compile({argument}=...) received {wanted!r}, which has a state; expected a function "
            'of targets and outputs, such as "sparse_categorical_accuracy". Use a callback for a metric with '
            "state, such as BinaryClassificationStats in an InferenceRunner."
        )
    return (found,)


def _kind(target: tf.Tensor, output: tf.Tensor) -> int:
    """Selects the kind of accuracy from the shapes, as Keras's `compile` does."""
    if output.shape[-1] == 1:
        return 0
    sparse = target.shape.rank < output.shape.rank or target.shape[-1] == 1
    return 1 if sparse else 2


def class_weights(labels: tf.Tensor, weights: Mapping[int, float]) -> tf.Tensor:
    """Returns the weight of each example by its class, 1 for a class without an entry: float32 [batch].

    Raises:
        ConfigError: the labels are not class labels.
    """
    if labels.shape.rank not in (1, 2):
        raise ConfigError(
            f"KerasModel.fit(class_weight=...): the target has shape {labels.shape}; expected one class for "
            "each example, of shape [batch], or [batch, classes]. Otherwise, use sample weights."
        )
    if labels.shape.rank == 2:
        labels = labels[:, 0] if labels.shape[1] == 1 else tf.argmax(labels, 1)
    labels = tf.cast(tf.round(labels) if labels.dtype.is_floating else labels, tf.int64)
    found = tf.equal(labels[:, None], tf.constant(list(weights), tf.int64))
    chosen = tf.gather(
        tf.constant(list(weights.values()), tf.float32), tf.argmax(tf.cast(found, tf.int32), 1)
    )
    return tf.where(tf.reduce_any(found, 1), chosen, tf.ones_like(chosen))
