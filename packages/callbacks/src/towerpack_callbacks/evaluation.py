"""Evaluation during training, and the statistics of one evaluation round."""

from __future__ import annotations

import abc
import itertools
from collections.abc import Sequence
from typing import Any, final

import numpy as np
import tensorflow.compat.v1 as tf

from .callback._callback import Callback
from .callback._trainer_protocol import InferenceTower

__all__ = [
    "BinaryClassificationStats",
    "ClassificationError",
    "DataParallelInferenceRunner",
    "InferenceRunner",
    "Inferencer",
    "ScalarStats",
]


class Inferencer(abc.ABC):
    """Computes statistics from the model's outputs for each batch of one evaluation round.

    Example:
        >>> from towerpack_callbacks import InferenceRunner
        >>> class Largest(Inferencer):
        ...     def _get_fetches(self):
        ...         return ["cost"]
        ...
        ...     def _before_inference(self):
        ...         self.largest = float("-inf")
        ...
        ...     def _on_fetches(self, values, batch_size):
        ...         self.largest = max(self.largest, float(values[0]))
        ...
        ...     def _after_inference(self):
        ...         return {"largest_cost": self.largest}
        ...
        ...     def produces(self):
        ...         return ["largest_cost"]
        >>> InferenceRunner([[0.0], [1.0]], Largest()).produces()
        ['largest_cost']
    """

    @abc.abstractmethod
    def _get_fetches(self) -> Sequence[str]:
        """Returns the names of the tensors to fetch for each batch."""

    def _before_inference(self) -> None:
        """Starts a round."""

    @abc.abstractmethod
    def _on_fetches(self, values: list[Any], batch_size: int) -> None:
        """Processes one batch.

        Args:
            values: the fetched arrays, in the order of `_get_fetches`, of their tensors' shapes and dtypes.
            batch_size: the number of examples in the batch; the last of a round may be smaller.
        """

    @abc.abstractmethod
    def _after_inference(self) -> dict[str, float]:
        """Ends a round and returns its statistics by name."""

    @abc.abstractmethod
    def produces(self) -> Sequence[str]:
        """Returns the names of the statistics that `_after_inference` will return."""


class _Runner(Callback):
    """Evaluates the model at each trigger; subclasses choose the devices."""

    def __init__(
        self,
        input: Any,
        inferencers: Inferencer | Sequence[Inferencer],
        tower_name: str,
        devices: Sequence[str],
    ) -> None:
        if not isinstance(inferencers, (list, tuple)):
            inferencers = [inferencers]  # type: ignore[list-item]
        for inferencer in inferencers:
            if not isinstance(inferencer, Inferencer):
                raise TypeError(
                    f"InferenceRunner takes Inferencer objects such as ScalarStats, received {inferencer!r}."
                )
        self._input = input
        self._inferencers = tuple(inferencers)
        self._tower_name = tower_name
        self._devices = devices

    def _setup_graph(self) -> None:
        self._tower: InferenceTower = self.trainer.build_inference_tower(
            self._input, self._tower_name, self._devices
        )
        names = [inferencer._get_fetches() for inferencer in self._inferencers]
        # First all by one call: a tower prepares to evaluate these together.
        self._tower.get_tensors([name for each in names if not isinstance(each, str) for name in each])
        self._fetches: list[list[tf.Tensor]] = [self._tower.get_tensors(each) for each in names]

    def _trigger(self) -> None:
        for inferencer in self._inferencers:
            inferencer._before_inference()
        batches = 0
        for values, batch_size in itertools.islice(
            self._tower.evaluate(self._fetches), self.trainer.loop.evaluation_batches
        ):
            batches += 1
            for inferencer, value in zip(self._inferencers, values):
                inferencer._on_fetches(value, batch_size)
        if not batches:
            raise ValueError(
                f"{self} evaluates over {self._input!r}, which gave no datapoint in this pass. Check its "
                "filters, and check that its batch size does not exceed its length."
            )
        for inferencer in self._inferencers:
            for name, number in inferencer._after_inference().items():
                self.trainer.monitors.put_scalar(name, number)

    def produces(self) -> Sequence[str]:
        return [name for inferencer in self._inferencers for name in inferencer.produces()]


@final
class InferenceRunner(_Runner):
    """Evaluates the model at each trigger, over one whole pass of `input`, each datapoint exactly once.

    It adds a replica of the model that shares its variables. Training steps, `global_step` and summaries are
    unaffected.

    Args:
        input: a DataFlow, or an InputSource that ends after one pass.
        inferencers: one `Inferencer` or several.
        tower_name: name scope of the replica; each runner needs a different name.

    Raises:
        TypeError: an inferencer is not one.

    Example:
        >>> test = [[[0.0, 1.0], [1, 0]]]  # a flow of batches
        >>> runner = InferenceRunner(test, [ScalarStats(["cost", "accuracy"]), ClassificationError()])
        >>> runner.produces()
        ['validation_cost', 'validation_accuracy', 'validation_error']
    """

    def __init__(
        self, input: Any, inferencers: Inferencer | Sequence[Inferencer], tower_name: str = "InferenceTower"
    ) -> None:
        super().__init__(input, inferencers, tower_name, ())


@final
class DataParallelInferenceRunner(_Runner):
    """Evaluates the model at each trigger on several devices at a time, each datapoint exactly once.

    It adds a replica per device. Each session call evaluates one datapoint on each device; the last call may
    use fewer devices. Inferencers receive batches in the order of the flow, so the statistics equal those of
    an `InferenceRunner`.

    Args:
        input: a DataFlow, with or without a known length. Use a flow with worker processes to keep the
            devices busy.
        inferencers: one `Inferencer` or several.
        devices: the devices of the replicas, such as ["/gpu:0", "/gpu:1"].
        tower_name: name scope of the replicas, before their numbers; each runner needs a different name.

    Raises:
        TypeError: an inferencer is not one.
        ValueError: no devices are given.

    Example:
        >>> test = [[[0.0, 1.0], [1, 0]]]  # a flow of batches
        >>> DataParallelInferenceRunner(test, ScalarStats("cost"), ["/gpu:0", "/gpu:1"]).produces()
        ['validation_cost']
    """

    def __init__(
        self,
        input: Any,
        inferencers: Inferencer | Sequence[Inferencer],
        devices: Sequence[str],
        tower_name: str = "InferenceTower",
    ) -> None:
        if not devices or isinstance(devices, str):
            raise ValueError(
                f"DataParallelInferenceRunner(devices={devices!r}): expected a list such as "
                '["/gpu:0", "/gpu:1"].'
            )
        super().__init__(input, inferencers, tower_name, list(devices))


@final
class ScalarStats(Inferencer):
    """Computes the mean of scalar tensors over all examples; batches are weighted by their size.

    Args:
        names: one or more names of scalar tensors. Each is the mean over its batch.
        prefix: statistics are named `<prefix>_<name>`; with "", just `<name>`.

    Example:
        >>> ScalarStats(["cost", "accuracy"]).produces(), ScalarStats("cost", prefix="").produces()
        (['validation_cost', 'validation_accuracy'], ['cost'])
    """

    def __init__(self, names: str | Sequence[str], prefix: str = "validation") -> None:
        self._names = [names] if isinstance(names, str) else list(names)
        self._lead = f"{prefix}_" if prefix else ""

    def _get_fetches(self) -> Sequence[str]:
        return self._names

    def _before_inference(self) -> None:
        self._sums = [0.0] * len(self._names)
        self._examples = 0

    def _on_fetches(self, values: list[Any], batch_size: int) -> None:
        sums = self._sums  # an array of a few numbers would take a fifth of the time of a small batch
        for index, value in enumerate(values):
            # The attribute is read in a tenth of the time of NumPy's function.
            if getattr(value, "ndim", None) != 0 and np.ndim(value) != 0:
                raise ValueError(
                    f"ScalarStats takes scalars; tensor {self._names[index]!r} has shape {np.shape(value)}. "
                    "Reduce it in build_graph, for example by tf.reduce_mean."
                )
            sums[index] += float(value) * batch_size
        self._examples += batch_size

    def _after_inference(self) -> dict[str, float]:
        return dict(zip(self.produces(), (total / max(self._examples, 1) for total in self._sums)))

    def produces(self) -> Sequence[str]:
        return [f"{self._lead}{name.split(':')[0]}" for name in self._names]


@final
class ClassificationError(Inferencer):
    """Computes the fraction of wrong predictions, exact for any batch sizes.

    Args:
        wrong_tensor_name: a vector with one 0 or 1 per example, 1 (or True) where the prediction is wrong.
        summary_name: name of the statistic.

    Example:
        >>> error = ClassificationError("wrong", "test_error")
        >>> error._before_inference()
        >>> error._on_fetches([[0, 1, 0, 0]], batch_size=4)  # called by a runner
        >>> error._after_inference()
        {'test_error': 0.25}
    """

    def __init__(
        self, wrong_tensor_name: str = "incorrect_vector", summary_name: str = "validation_error"
    ) -> None:
        self._tensor_name = wrong_tensor_name
        self._summary_name = summary_name

    def _get_fetches(self) -> Sequence[str]:
        return [self._tensor_name]

    def _before_inference(self) -> None:
        self._wrong = 0.0
        self._examples = 0

    def _on_fetches(self, values: list[Any], batch_size: int) -> None:
        vector = np.asarray(values[0])
        if vector.ndim != 1:
            raise ValueError(
                f"ClassificationError takes a vector with one 0 or 1 per example; "
                f"tensor {self._tensor_name!r} has shape {vector.shape}."
            )
        self._wrong += float(vector.sum())
        self._examples += len(vector)

    def _after_inference(self) -> dict[str, float]:
        return {self._summary_name: self._wrong / max(self._examples, 1)}

    def produces(self) -> Sequence[str]:
        return [self._summary_name]


@final
class BinaryClassificationStats(Inferencer):
    """Computes precision, recall and F1 of binary predictions, over all elements of the round.

    An undefined value, such as the precision without positive predictions, is 0.

    Args:
        pred_tensor_name: the predictions, an array of any shape with 0 or 1 (or bool) in each element.
        label_tensor_name: the labels, of the same shape.
        prefix: statistics are named `<prefix>_precision`, `<prefix>_recall`, `<prefix>_f1`; "" for no prefix.

    Example:
        >>> stats = BinaryClassificationStats("predictions", "labels")
        >>> stats._before_inference()
        >>> stats._on_fetches([[1, 1, 0, 0], [1, 0, 0, 1]], batch_size=4)  # called by a runner
        >>> stats._after_inference()
        {'val_precision': 0.5, 'val_recall': 0.5, 'val_f1': 0.5}
    """

    def __init__(self, pred_tensor_name: str, label_tensor_name: str, prefix: str = "val") -> None:
        self._names = [pred_tensor_name, label_tensor_name]
        self._lead = f"{prefix}_" if prefix else ""

    def _get_fetches(self) -> Sequence[str]:
        return self._names

    def _before_inference(self) -> None:
        self._predicted = self._labelled = self._both = 0

    def _on_fetches(self, values: list[Any], batch_size: int) -> None:
        pred, label = (np.asarray(value) for value in values)
        if pred.shape != label.shape:
            raise ValueError(
                f"BinaryClassificationStats compares element by element; {self._names[0]!r} has shape "
                f"{pred.shape}, {self._names[1]!r} has {label.shape}."
            )
        for name, array in zip(self._names, (pred, label)):
            if array.dtype != bool and not np.isin(array, (0, 1)).all():
                raise ValueError(
                    f"BinaryClassificationStats takes 0 and 1; {name!r} has other values. "
                    "Apply a threshold in the model, for example tf.cast(probability > 0.5, tf.int32)."
                )
        pred, label = pred.astype(bool), label.astype(bool)
        self._predicted += int(pred.sum())
        self._labelled += int(label.sum())
        self._both += int((pred & label).sum())

    def _after_inference(self) -> dict[str, float]:
        values = (
            self._both / max(self._predicted, 1),
            self._both / max(self._labelled, 1),
            2 * self._both / max(self._predicted + self._labelled, 1),
        )
        return dict(zip(self.produces(), values))

    def produces(self) -> Sequence[str]:
        return [f"{self._lead}{what}" for what in ("precision", "recall", "f1")]
