"""A predictor that batches requests of many threads."""

from __future__ import annotations

import abc
import contextlib
import queue
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from ..training._towers import OnlinePredictor, PredictorBase
from ..utils import logger
from ..utils.threads import ShareSessionThread, StoppableThread

__all__ = ["AsyncPredictorBase", "MultiThreadAsyncPredictor"]


class AsyncPredictorBase(PredictorBase):
    """A predictor that returns futures of its outputs."""

    @abc.abstractmethod
    def put_task(
        self, dp: Sequence[Any], callback: Callable[[Future[Any]], Any] | None = None
    ) -> Future[Any]:
        """Requests a prediction.

        Args:
            dp: the inputs.
            callback: called with the future when its result is available.
        """

    @abc.abstractmethod
    def start(self) -> None:
        """Starts the workers."""

    def _do_call(self, dp: Sequence[Any]) -> list[Any]:
        return list(self.put_task(dp).result())


class _Worker(StoppableThread, ShareSessionThread):
    """Takes all waiting requests from a queue, and predicts for them in one batch."""

    def __init__(
        self, requests: queue.Queue[Any], predictor: OnlinePredictor, number: int, most: int
    ) -> None:
        super().__init__()
        self.name, self.daemon = f"PredictorWorkerThread-{number}", True
        self._requests, self._predictor, self._most = requests, predictor, most

    def run(self) -> None:
        with self.default_sess():
            while not self.stopped():
                datapoints, futures = zip(*self._take())
                try:
                    outputs = self._predictor(*(np.asarray(inputs) for inputs in zip(*datapoints)))
                except tf.errors.CancelledError:
                    for future in futures:
                        future.cancel()
                    logger.warn("In %s, call was cancelled.", self.name)
                    return
                for number, future in enumerate(futures):
                    future.set_result([output[number] for output in outputs])

    def _take(self) -> list[Any]:
        taken = [self._requests.get()]
        with contextlib.suppress(queue.Empty):
            while len(taken) < self._most:
                taken.append(self._requests.get_nowait())
        return taken


class MultiThreadAsyncPredictor(AsyncPredictorBase):
    """Predicts for single datapoints through predictors of batches, each in a thread.

    Args:
        predictors: the predictors.
        batch_size: the maximum number of datapoints in a batch.
    """

    def __init__(self, predictors: Sequence[OnlinePredictor], batch_size: int = 5) -> None:
        assert len(predictors), "MultiThreadAsyncPredictor needs a predictor."
        for predictor in predictors:
            assert isinstance(predictor, OnlinePredictor) and not predictor.return_input, predictor
        self._predictors = list(predictors)
        self.input_queue: queue.Queue[Any] = queue.Queue(maxsize=len(predictors) * 100)
        self.threads = [
            _Worker(self.input_queue, predictor, number, batch_size)
            for number, predictor in enumerate(predictors)
        ]

    def start(self) -> None:
        """Starts the threads; predictors without a session use the default session."""
        if any(predictor.sess is None for predictor in self._predictors):
            assert tf.get_default_session() is not None, "Call start() within a default session."
        for thread in self.threads:
            thread.start()

    def put_task(
        self, dp: Sequence[Any], callback: Callable[[Future[Any]], Any] | None = None
    ) -> Future[Any]:
        future: Future[Any] = Future()
        if callback is not None:
            future.add_done_callback(callback)
        self.input_queue.put((dp, future))
        return future
