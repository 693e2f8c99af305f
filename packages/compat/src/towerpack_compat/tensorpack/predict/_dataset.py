"""Predictors for a whole flow, in this process or in several."""

from __future__ import annotations

import abc
import contextlib
import itertools
import multiprocessing
import os
import queue
from collections.abc import Iterator
from multiprocessing.context import ForkProcess
from typing import Any

from towerpack_dataflow import DataFlow

from ..._dry_run import EVALUATION_BATCHES, dry_run_steps
from ..utils import logger
from ..utils.functions import change_gpu, get_num_gpu, get_tqdm
from ..utils.graph import describe_trainable_vars
from ..utils.threads import ensure_proc_terminate
from ._offline import OfflinePredictor, PredictConfig

__all__ = [
    "DatasetPredictorBase",
    "MultiProcessDatasetPredictor",
    "MultiProcessPredictWorker",
    "MultiProcessQueuePredictWorker",
    "SimpleDatasetPredictor",
]


class DatasetPredictorBase(abc.ABC):
    """Predicts for each datapoint of a flow.

    Args:
        config: a `PredictConfig`.
        dataset: the flow.
    """

    def __init__(self, config: PredictConfig, dataset: DataFlow) -> None:
        assert isinstance(config, PredictConfig), config
        self.config, self.dataset = config, dataset

    @abc.abstractmethod
    def get_result(self) -> Iterator[Any]:
        """Yields the outputs for each datapoint."""

    def get_all_result(self) -> list[Any]:
        """Returns the outputs for all datapoints."""
        return list(self.get_result())

    def _datapoints(self) -> Iterator[Any]:
        self.dataset.reset_state()
        return itertools.islice(self.dataset, None if dry_run_steps() is None else EVALUATION_BATCHES)

    def _with_progress(self, results: Iterator[Any]) -> Iterator[Any]:
        try:
            size = len(self.dataset)
        except (NotImplementedError, TypeError):
            size = 0
        return iter(get_tqdm(results, total=size, disable=not size))


class SimpleDatasetPredictor(DatasetPredictorBase):
    """Predicts for the datapoints of a flow in order, in this process."""

    def __init__(self, config: PredictConfig, dataset: DataFlow) -> None:
        super().__init__(config, dataset)
        self.predictor = OfflinePredictor(config)

    def get_result(self) -> Iterator[Any]:
        yield from self._with_progress(self.predictor(*datapoint) for datapoint in self._datapoints())


class MultiProcessPredictWorker(ForkProcess):
    """A process with a predictor; override `run`, and call `_init_runtime` in it.

    The process is forked, since the functions of a model cannot always be pickled.

    Args:
        idx: the number of the worker; the first one logs.
        config: a `PredictConfig`.
    """

    def __init__(self, idx: int, config: PredictConfig) -> None:
        super().__init__()
        self.name = f"MultiProcessPredictWorker-{idx}"
        self.idx, self.config = idx, config

    def _init_runtime(self) -> None:
        from towerpack_layers import disable_layer_logging

        if self.idx:
            disable_layer_logging()
        self.predictor = OfflinePredictor(self.config)
        if not self.idx:
            with self.predictor.graph.as_default():
                describe_trainable_vars()


class MultiProcessQueuePredictWorker(MultiProcessPredictWorker):
    """Predicts for pairs of a number and a datapoint of a queue, until a number is None.

    Args:
        idx: the number of the worker.
        inqueue: pairs of a number and a datapoint.
        outqueue: receives pairs of a number and the outputs.
        config: a `PredictConfig`.
    """

    def __init__(self, idx: int, inqueue: Any, outqueue: Any, config: PredictConfig) -> None:
        super().__init__(idx, config)
        self.inqueue, self.outqueue = inqueue, outqueue

    def run(self) -> None:
        self._init_runtime()
        while True:
            number, datapoint = self.inqueue.get()
            if number is None:
                self.outqueue.put((None, None))
                return
            self.outqueue.put((number, self.predictor(*datapoint)))


class MultiProcessDatasetPredictor(DatasetPredictorBase):
    """Predicts for each datapoint of a flow, in several processes.

    Args:
        config: a `PredictConfig`.
        dataset: the flow.
        nr_proc: the number of processes.
        use_gpu: whether each process uses one GPU; otherwise all use the CPU.
        ordered: whether outputs are in the order of the datapoints.
    """

    def __init__(
        self,
        config: PredictConfig,
        dataset: DataFlow,
        nr_proc: int,
        use_gpu: bool = True,
        ordered: bool = True,
    ) -> None:
        assert nr_proc >= 1, nr_proc
        super().__init__(config, dataset)
        self.nr_proc, self.ordered = nr_proc, ordered
        gpus = _visible_gpus() if use_gpu else ["-1"] * nr_proc
        assert len(gpus) >= nr_proc, f"nr_proc={nr_proc} while only {len(gpus)} gpus available"
        self.inqueue: Any = multiprocessing.Queue(nr_proc * 2)
        self.outqueue: Any = multiprocessing.Queue()
        self.workers = [
            MultiProcessQueuePredictWorker(number, self.inqueue, self.outqueue, config)
            for number in range(nr_proc)
        ]
        ensure_proc_terminate(self.workers)
        for worker, gpu in zip(self.workers, gpus):
            logger.info("Worker %d uses %s", worker.idx, "CPU" if gpu == "-1" else f"GPU {gpu}")
            with change_gpu(gpu):
                worker.start()

    def get_result(self) -> Iterator[Any]:
        results = self._results()
        yield from self._with_progress(_in_order(results) if self.ordered else (pair[1] for pair in results))
        for worker in self.workers:
            worker.join()

    def _results(self) -> Iterator[tuple[int, Any]]:
        """Yields pairs of a number and outputs, in order of completion."""
        for pair in enumerate(self._datapoints()):
            self.inqueue.put(pair)
            with contextlib.suppress(queue.Empty):
                while True:
                    yield self.outqueue.get_nowait()
        for _ in self.workers:
            self.inqueue.put((None, None))
        working = self.nr_proc
        while working:
            number, outputs = self.outqueue.get()
            if number is None:
                working -= 1
            else:
                yield number, outputs


def _in_order(pairs: Iterator[tuple[int, Any]]) -> Iterator[Any]:
    waiting: dict[int, Any] = {}
    wanted = 0
    for number, outputs in pairs:
        waiting[number] = outputs
        while wanted in waiting:
            yield waiting.pop(wanted)
            wanted += 1


def _visible_gpus() -> list[str]:
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    return list(map(str, range(get_num_gpu()))) if chosen is None else chosen.split(",")
