"""Prediction for many threads, whose requests become batches."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Any, final

import numpy as np

from .._argument_checks import at_least
from .._errors import ConfigError, PredictorInputError, TrainerStateError
from ..towers._predictor import InputCheck, Predictor
from ._dataset_predictor import arguments_of
from ._offline_predictor import OfflinePredictor
from ._request_queue import ClosedError, RequestQueue
from ._requests import Call, Request, Task, WorkerLocal, answer_all

__all__ = ["MultiThreadAsyncPredictor"]

# How many requests may wait for each predictor, unless told otherwise.
_QUEUED = 100


@final
class MultiThreadAsyncPredictor:
    """Predicts for single examples from many threads: whatever waits becomes a batch, without delay.

    `predict(*arrays)` waits for the answer; `put_task` returns a future. Examples have no axis for the batch,
    and neither have their results. Examples of unequal shapes are not put into one batch. An error of a batch
    reaches the callers of that batch alone. Use it in a `with` block: `close` answers what waits, then ends
    the threads.

    Callbacks of futures run in these threads, and may ask for further predictions: `put_task` does not wait
    for room there, a call is answered at once, and waiting for another future raises an error. What a
    callback raises is logged.

    Args:
        predictors: an `OfflinePredictor`, a trainer's predictor or a list of such; each works in a thread of
            its own, and runs its ops in that thread. The same one may be in the list several times, for
            several cores.
        batch_size: the most examples in a batch.
        queue_size: how many requests may wait; those who make more wait, too. None: 100 for each predictor.

    Raises:
        ConfigError: an argument is of another kind than described; the predictors have different inputs or
            outputs; or one of these has no axis for the batch, or a fixed one.

    Example:
        ```python
        with OfflinePredictor(config) as offline, MultiThreadAsyncPredictor(offline) as predict:
            futures = [predict.put_task([image]) for image in images]
            (logits,) = futures[0].result()
        ```
    """

    def __init__(
        self,
        predictors: OfflinePredictor | Predictor | Sequence[OfflinePredictor | Predictor],
        batch_size: int = 64,
        queue_size: int | None = None,
    ) -> None:
        name = type(self).__name__
        self._predictors = _own_predictors(name, predictors)
        self._batch_size = at_least(name, "batch_size", batch_size)
        size = _QUEUED * len(self._predictors) if queue_size is None else queue_size
        self._requests: RequestQueue[Request] = RequestQueue(at_least(name, "queue_size", size))
        self._checks = [InputCheck(tensor, without_batch=True) for tensor in self._predictors[0].inputs]
        self._one_shape = all(check.takes_one_shape for check in self._checks)
        self._names = [tensor.op.name for tensor in self._predictors[0].inputs]
        self._threads: list[threading.Thread] = []
        self._starting = threading.Lock()
        self._worker = WorkerLocal()

    def start(self) -> None:
        """Starts the threads; the first request does so, too. A second call does nothing."""
        with self._starting:
            if self._threads:
                return
            for number, predictor in enumerate(self._predictors):
                name = f"{type(self).__name__}-{number}"
                thread = threading.Thread(target=self._work, args=(predictor,), name=name, daemon=True)
                thread.start()
                self._threads.append(thread)

    def __call__(self, *arrays: Any) -> list[Any]:
        """Predicts for one example, and waits for the answer.

        Args:
            arrays: one per input, without the axis of the batch.

        Returns:
            One array per output, without the axis of the batch.

        Raises:
            PredictorInputError: another number of arrays is given, or one has a shape or type that its input
                does not take.
            TrainerStateError: it is closed.
            Exception: what predicting for the batch raised.
        """
        call = Call(self._checked(arrays))
        if self._worker.predictor is None:
            self._put(call)
        else:  # a callback, whose thread cannot wait for itself
            _answer(self._worker.predictor, [call])
        return call.wait()  # type: ignore[no-any-return]

    def put_task(
        self, datapoint: Any, callback: Callable[[Future[list[Any]]], object] | None = None
    ) -> Future[list[Any]]:
        """Requests a prediction for one example, and returns its future.

        Waits while the queue is full, except in a callback.

        Args:
            datapoint: a list or tuple of one array per input, without the axis of the batch, or a dict of
                them by the inputs' names.
            callback: called with the future when it is done, in a thread of this predictor.

        Returns:
            A future of what a call returns or raises; it can be cancelled while the request waits.

        Raises:
            PredictorInputError: the datapoint is of another kind, or an array has a shape or type that its
                input does not take.
            TrainerStateError: it is closed.
        """
        task = Task(self._checked(arguments_of(datapoint, self._names)), self._worker)
        if callback is not None:
            task.future.add_done_callback(callback)
        self._put(task)
        return task.future

    def close(self) -> None:
        """Answers the requests that wait, and ends the threads. A second call does nothing.

        In a callback it does not wait for the threads, of which it is one.
        """
        self._requests.close()
        if self._worker.predictor is None:
            for thread in self._threads:
                thread.join()

    def __enter__(self) -> MultiThreadAsyncPredictor:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _checked(self, arrays: Sequence[Any]) -> list[np.ndarray]:
        if len(arrays) != len(self._checks):
            raise PredictorInputError(
                f"The predictor takes {len(self._checks)} arrays ({', '.join(self._names)}), received "
                f"{len(arrays)}."
            )
        return [check(array) for check, array in zip(self._checks, arrays)]

    def _put(self, request: Request) -> None:
        try:
            self._requests.put(request, wait=self._worker.predictor is None)
        except ClosedError:
            raise TrainerStateError(
                f"This {type(self).__name__} is closed. Call it inside of its `with` block."
            ) from None
        if not self._threads:
            self.start()

    def _work(self, predictor: Predictor) -> None:
        self._worker.predictor = predictor
        batches: list[list[Request]] = []
        try:
            while taken := self._requests.take(self._batch_size):
                batches = self._batches(taken)
                while batches:
                    _answer(predictor, batches.pop(0))
        except BaseException as error:  # such as a MemoryError: no request is to wait for this thread
            self._requests.close()
            for batch in [*batches, self._requests.take(sys.maxsize)]:
                answer_all(batch, (), error)
            raise

    def _batches(self, taken: Sequence[Request]) -> list[list[Request]]:
        wanted = [request for request in taken if request.begin()]
        return [wanted] if self._one_shape and wanted else _of_equal_shapes(wanted)


def _own_predictors(name: str, given: Any) -> list[Predictor]:
    listed = list(given) if isinstance(given, (list, tuple)) else [given]
    if not listed or not all(isinstance(one, (OfflinePredictor, Predictor)) for one in listed):
        raise ConfigError(
            f"{name}(predictors={given!r}): expected an OfflinePredictor, a predictor of a trainer or of a "
            "MultiTowerOfflinePredictor, or a list of such."
        )
    if any(one.return_input for one in listed):
        raise ConfigError(f"{name} returns no inputs. Make its predictors without return_input=True.")
    if len({_signature(one) for one in listed}) > 1:
        raise ConfigError(f"{name}: the predictors have different inputs or outputs. Give each kind its own.")
    for tensor in listed[0].inputs:
        if tensor.shape.rank == 0 or (tensor.shape.rank and tensor.shape[0] is not None):
            raise ConfigError(
                f"{name}: the input {tensor.op.name!r} has shape {tensor.shape}, and cannot take a batch of "
                "any size. Let its first axis be None in the model's inputs()."
            )
    for tensor in listed[0].outputs:
        if tensor.shape.rank == 0:
            raise ConfigError(
                f"{name}: the output {tensor.op.name!r} is one number for a whole batch, and cannot be given "
                "to its examples. Fetch a tensor with the axis of the batch."
            )
    return [one.in_calling_thread() for one in listed]


def _signature(predictor: OfflinePredictor | Predictor) -> tuple[Any, ...]:
    tensors = [predictor.inputs, predictor.outputs]
    return tuple(tuple((tensor.dtype, str(tensor.shape)) for tensor in group) for group in tensors)


def _of_equal_shapes(requests: Iterable[Request]) -> list[list[Request]]:
    batches: dict[Any, list[Request]] = {}
    for request in requests:
        batches.setdefault(request.shapes, []).append(request)
    return list(batches.values())


def _answer(predictor: Predictor, batch: Sequence[Request]) -> None:
    results, error = _predict(predictor, batch)
    answer_all(batch, results, error)


def _predict(predictor: Predictor, batch: Sequence[Request]) -> tuple[Sequence[Any], BaseException | None]:
    """Returns a result for each request, or what was raised instead."""
    try:
        arrays = [np.stack(column) for column in zip(*(request.arrays for request in batch))]
        outputs = predictor(*arrays)
        for tensor, output in zip(predictor.outputs, outputs):
            if np.ndim(output) == 0 or len(output) != len(batch):
                raise ConfigError(
                    f"The output {tensor.op.name!r} has shape {np.shape(output)} for {len(batch)} examples, "
                    "and cannot be given to its examples. Fetch a tensor with the axis of the batch."
                )
        return [list(row) for row in zip(*outputs)], None
    except BaseException as error:  # it is the callers', and the thread goes on
        return (), error
