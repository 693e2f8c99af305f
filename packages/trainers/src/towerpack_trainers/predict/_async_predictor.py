"""Prediction for many threads, with their requests combined into batches."""

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
from ._requests import Call, ClosedError, Request, RequestQueue, Task, WorkerLocal, answer_all

__all__ = ["MultiThreadAsyncPredictor"]

# The default capacity of the queue, for each predictor.
_QUEUED = 100


@final
class MultiThreadAsyncPredictor:
    """Predicts for single examples from many threads; combines waiting requests into batches.

    `predict(*arrays)` waits for the answer; `put_task` returns a future. Examples and their results have no
    batch axis. Examples of unequal shapes are put into separate batches. An error of a batch is raised only
    to the callers of that batch. Use it in a `with` block: `close` answers the waiting requests, then ends
    the threads.

    Callbacks of futures run in these threads, and may request further predictions: there, `put_task` does not
    wait for room, a call is answered immediately, and waiting for another future raises an error. Errors of a
    callback are logged.

    Args:
        predictors: an `OfflinePredictor`, a trainer's predictor, or a list of these; each has its own thread
            and runs its ops in that thread. The list may contain the same one several times, for several
            cores.
        batch_size: the maximum number of examples in a batch.
        queue_size: the maximum number of waiting requests; further callers wait. None: 100 for each
            predictor.

    Raises:
        ConfigError: an argument has a wrong type or value; the predictors have different inputs or outputs;
            or one of these has no batch axis, or a fixed batch size.

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
        """Starts the threads, as the first request also does. A second call does nothing."""
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
            arrays: one per input, without the batch axis.

        Returns:
            One array per output, without the batch axis.

        Raises:
            PredictorInputError: the number of arrays, or the shape or dtype of an array, does not match the
                inputs.
            TrainerStateError: the predictor is closed.
            Exception: the error of the batch.
        """
        call = Call(self._checked(arrays))
        if self._worker.predictor is None:
            self._put(call)
        else:  # a callback; its thread cannot wait for itself
            _answer(self._worker.predictor, [call])
        return call.wait()  # type: ignore[no-any-return]

    def put_task(
        self, datapoint: Any, callback: Callable[[Future[list[Any]]], object] | None = None
    ) -> Future[list[Any]]:
        """Requests a prediction for one example, and returns its future.

        It waits while the queue is full, except in a callback.

        Args:
            datapoint: a list or tuple of one array per input, without the batch axis, or a dict of arrays
                keyed by the inputs' names. The arrays are not copied: change them only after the answer.
            callback: called with the future when it is done, in a thread of this predictor.

        Returns:
            A future with the result or the error of a call; it can be cancelled while the request waits.

        Raises:
            PredictorInputError: the datapoint has another type, or the shape or dtype of an array does not
                match its input.
            TrainerStateError: the predictor is closed.
        """
        task = Task(self._checked(arguments_of(datapoint, self._names)), self._worker)
        if callback is not None:
            task.future.add_done_callback(callback)
        self._put(task)
        return task.future

    def close(self) -> None:
        """Answers the waiting requests, and ends the threads. A second call does nothing.

        In a callback it does not wait for the threads, since it runs in one of them.
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
                f"This {type(self).__name__} is closed. Call it inside its `with` block."
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
        except BaseException as error:  # such as a MemoryError: no request may wait for this thread
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
            "MultiTowerOfflinePredictor, or a list of these."
        )
    if any(one.return_input for one in listed):
        raise ConfigError(f"{name} returns no inputs. Make its predictors without return_input=True.")
    if len({_signature(one) for one in listed}) > 1:
        raise ConfigError(f"{name}: the predictors have different inputs or outputs. Make one for each kind.")
    for tensor in listed[0].inputs:
        if tensor.shape.rank == 0 or (tensor.shape.rank and tensor.shape[0] is not None):
            raise ConfigError(
                f"{name}: the input {tensor.op.name!r} has shape {tensor.shape}, and cannot take a batch of "
                "any size. Set its first axis to None in the model's inputs()."
            )
    for tensor in listed[0].outputs:
        if tensor.shape.rank == 0:
            raise ConfigError(
                f"{name}: the output {tensor.op.name!r} is one number for a whole batch and cannot be split "
                "into examples. Fetch a tensor with a batch axis."
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
    """Returns a result for each request, or the error instead."""
    try:
        arrays = [np.stack(column) for column in zip(*(request.arrays for request in batch))]
        outputs = predictor(*arrays)
        for tensor, output in zip(predictor.outputs, outputs):
            if np.ndim(output) == 0 or len(output) != len(batch):
                raise ConfigError(
                    f"The output {tensor.op.name!r} has shape {np.shape(output)} for {len(batch)} examples "
                    "and cannot be split into examples. Fetch a tensor with a batch axis."
                )
        return [list(row) for row in zip(*outputs)], None
    except BaseException as error:  # raised in the callers; this thread continues
        return (), error
