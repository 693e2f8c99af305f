"""`InferenceRunner` and its inferencers, which average over batches as in Tensorpack."""

from __future__ import annotations

import abc
import contextlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.training.monitored_session import _HookedSession as HookedSession  # noqa: PLC2701

from towerpack_inputsource import InputSource

from ..._dry_run import EVALUATION_BATCHES, dry_run_steps
from ..input_source import FeedInput, QueueInput
from ..utils import logger
from ..utils.stats import BinaryStatistics, RatioCounter
from ._old_callback import Callback

__all__ = [
    "BinaryClassificationStats",
    "ClassificationError",
    "DataParallelInferenceRunner",
    "InferenceRunner",
    "InferenceRunnerBase",
    "Inferencer",
    "ScalarStats",
]


class Inferencer(Callback, abc.ABC):
    """Computes statistics from tensors that an `InferenceRunner` fetches for each batch."""

    def _before_epoch(self) -> None:
        self._before_inference()

    def _before_inference(self) -> None:
        """Runs before a round."""

    def _trigger_epoch(self) -> None:
        for name, value in (self._after_inference() or {}).items():
            try:
                number = float(value)
            except (TypeError, ValueError):
                logger.warn("%s returns a non-scalar statistics!", type(self).__name__)
                continue
            self.trainer.monitors.put_scalar(name, number)

    def _after_inference(self) -> dict[str, Any] | None:
        """Returns the statistics of a round."""
        return None

    def get_fetches(self) -> list[str]:
        """Returns the names of the tensors to fetch."""
        return [name if ":" in name else f"{name}:0" for name in self._get_fetches()]

    @abc.abstractmethod
    def _get_fetches(self) -> Sequence[str]:
        """Returns the names of the tensors to fetch."""

    def on_fetches(self, results: list[Any]) -> None:
        """Receives the values of a batch."""
        self._on_fetches(results)

    @abc.abstractmethod
    def _on_fetches(self, results: list[Any]) -> None:
        """Receives the values of a batch, in the order of `_get_fetches`."""


class ScalarStats(Inferencer):
    """Averages scalar tensors over all batches, with equal weights.

    Args:
        names: a tensor's name, or a list of names.
        prefix: the prefix of the names of the statistics.
    """

    def __init__(self, names: str | list[str], prefix: str = "validation") -> None:
        self.names = names if isinstance(names, list) else [names]
        self.prefix = prefix

    def _before_inference(self) -> None:
        self.stats: list[Any] = []

    def _get_fetches(self) -> Sequence[str]:
        return self.names

    def _on_fetches(self, results: list[Any]) -> None:
        self.stats.append(results)

    def _after_inference(self) -> dict[str, Any]:
        if not self.stats:
            return {}
        names = [name.removesuffix(":0") for name in self.names]
        labels = [f"{self.prefix}_{name}" if self.prefix else name for name in names]
        return dict(zip(labels, np.mean(self.stats, axis=0), strict=True))


class ClassificationError(Inferencer):
    """Computes the share of wrong examples over all examples.

    Args:
        wrong_tensor_name: a vector with one entry for each example, 1 where the prediction is wrong.
        summary_name: the name of the statistic.
    """

    def __init__(
        self, wrong_tensor_name: str = "incorrect_vector", summary_name: str = "validation_error"
    ) -> None:
        self.wrong_tensor_name, self.summary_name = wrong_tensor_name, summary_name

    def _before_inference(self) -> None:
        self.err_stat = RatioCounter()

    def _get_fetches(self) -> Sequence[str]:
        return [self.wrong_tensor_name]

    def _on_fetches(self, results: list[Any]) -> None:
        (wrong,) = results
        assert wrong.ndim == 1, f"{self.wrong_tensor_name} is not a vector!"
        self.err_stat.feed(np.sum(wrong), len(wrong))

    def _after_inference(self) -> dict[str, Any]:
        return {self.summary_name: self.err_stat.ratio}


class BinaryClassificationStats(Inferencer):
    """Computes precision and recall.

    Args:
        pred_tensor_name: the predictions, 0 or 1.
        label_tensor_name: the labels, 0 or 1.
        prefix: the prefix of the names of the statistics.
    """

    def __init__(self, pred_tensor_name: str, label_tensor_name: str, prefix: str = "val") -> None:
        self.pred_tensor_name, self.label_tensor_name = pred_tensor_name, label_tensor_name
        self.prefix = prefix

    def _before_inference(self) -> None:
        self.stat = BinaryStatistics()

    def _get_fetches(self) -> Sequence[str]:
        return [self.pred_tensor_name, self.label_tensor_name]

    def _on_fetches(self, results: list[Any]) -> None:
        self.stat.feed(*results)

    def _after_inference(self) -> dict[str, Any]:
        return {f"{self.prefix}_precision": self.stat.precision, f"{self.prefix}_recall": self.stat.recall}


class InferenceRunnerBase(Callback):
    """Runs inferencers over an input once for each epoch.

    Args:
        input: an `InputSource` or a DataFlow.
        infs: an `Inferencer`, or a list of them.
    """

    def __init__(self, input: Any, infs: Inferencer | list[Inferencer]) -> None:
        self._input_source = input if isinstance(input, InputSource) else FeedInput(input, infinite=False)
        self.infs = infs if isinstance(infs, list) else [infs]
        assert all(isinstance(each, Inferencer) for each in self.infs), self.infs
        self._hooks: list[Any] = []

    def register_hook(self, hook: tf.train.SessionRunHook) -> None:
        """Adds a hook that each run of the evaluation calls."""
        self._hooks.append(hook)

    def _before_train(self) -> None:
        for hook in self._hooks:
            hook.after_create_session(self.trainer.sess, self.trainer.coord)
        self._hooked_sess = HookedSession(self.trainer.sess, self._hooks)

    def _after_train(self) -> None:
        for hook in self._hooks:
            hook.end(self.trainer.sess)

    def _batches(self) -> Iterator[int]:
        size = self._input_source.size()
        count = itertools.count() if not size else range(size)
        return iter(itertools.islice(count, EVALUATION_BATCHES) if dry_run_steps() else count)


class InferenceRunner(InferenceRunnerBase):
    """Runs inferencers over an input, on a replica of the model, once for each epoch.

    Args:
        input: an `InputSource` or a DataFlow.
        infs: an `Inferencer`, or a list of them.
        tower_name: the name scope of the replica.
        tower_func: builds the replica; None: the tower function of the trainer.
        device: the index of a GPU; -1 for the CPU.
    """

    def __init__(
        self,
        input: Any,
        infs: Inferencer | list[Inferencer],
        tower_name: str = "InferenceTower",
        tower_func: Any = None,
        device: int = 0,
    ) -> None:
        super().__init__(input, infs)
        self._tower_func, self._places = tower_func, [(tower_name, device)]

    def _setup_graph(self) -> None:
        trainer: Any = self.trainer
        function, source = self._tower_func or trainer.tower_func, self._input_source
        assert function is not None, "You must set tower_func of the trainer to use InferenceRunner!"
        with tf.name_scope(None):
            source.setup(function.input_signature)
            hooks = source.hooks()
            for hook in hooks:
                hook.begin()  # workers start here, before the session has threads
            self._hooks.extend(hooks)
            handles = [
                trainer.build_prediction_tower(function, name, device, source.get_input_tensors)
                for name, device in self._places
            ]
        self._fetches = [[handle.get_tensors(inf.get_fetches()) for inf in self.infs] for handle in handles]
        for inferencer in self.infs:
            inferencer.setup_graph(self.trainer)

    def _runs(self) -> Iterator[int]:
        """Yields the number of active replicas for each run."""
        return (1 for _ in self._batches())

    def _trigger(self) -> None:
        for inferencer in self.infs:
            inferencer.before_epoch()
        self._input_source.reset_state()
        with contextlib.suppress(tf.errors.OutOfRangeError):
            for count in self._runs():
                for of_tower in self._hooked_sess.run(self._fetches[:count]):
                    for inferencer, values in zip(self.infs, of_tower):
                        inferencer.on_fetches(values)
        for inferencer in self.infs:
            inferencer.trigger_epoch()


class DataParallelInferenceRunner(InferenceRunner):
    """Runs inferencers on several GPUs, one batch on each at once; remaining batches run on the first GPU.

    Args:
        input: a `QueueInput` or a DataFlow, of a known size.
        infs: an `Inferencer`, or a list of them.
        gpus: the number of GPUs, or a list of their indices.
        tower_name: the prefix of the replicas' name scopes.
        tower_func: builds a replica; None: the tower function of the trainer.
    """

    def __init__(
        self,
        input: Any,
        infs: Inferencer | list[Inferencer],
        gpus: int | list[int],
        tower_name: str = "InferenceTower",
        tower_func: Any = None,
    ) -> None:
        source = input if isinstance(input, InputSource) else QueueInput(input)
        assert isinstance(source, QueueInput), source
        super().__init__(source, infs, tower_name, tower_func)
        assert source.size(), "Input for DataParallelInferenceRunner must have a size!"
        numbers = range(gpus) if isinstance(gpus, int) else gpus
        self._places = [(f"{tower_name}{index}", number) for index, number in enumerate(numbers)]

    def _runs(self) -> Iterator[int]:
        rounds, rest = divmod(len(list(self._batches())), len(self._places))
        yield from [len(self._places)] * rounds + [1] * rest
