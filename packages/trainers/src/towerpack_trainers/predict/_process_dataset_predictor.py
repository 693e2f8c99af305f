"""Prediction for all datapoints of a flow, in several processes."""

from __future__ import annotations

import contextlib
import logging
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, final

from .._argument_checks import at_least
from .._errors import ConfigError, PredictorProcessError, TrainerStateError
from ._dataset_predictor import OTHER_PASS, DatasetPredictor, as_flow, restarted
from ._predict_config import PredictConfig
from ._predict_processes import PredictProcesses

__all__ = ["MultiProcessDatasetPredictor"]

_log = logging.getLogger("towerpack_trainers")

# The maximum number of datapoints per process that are in progress, or finished before an earlier one.
_MOST_AHEAD = 4


@final
class MultiProcessDatasetPredictor(DatasetPredictor):
    """Predicts for each datapoint of a flow in several processes, and keeps their order.

    This process reads the flow, which may have its own workers. The first pass starts the prediction
    processes, and later passes reuse them; `close`, which a `with` block calls, ends them. They also end
    whenever this process ends, even if it is killed. They do not import the main module, so a script needs no
    `if __name__ == "__main__":`.

    Args:
        config: the model, the source of its values, and the tensors to feed and fetch. It is sent to the
            processes by cloudpickle.
        dataflow: a DataFlow, or another iterable that can be iterated again; `reset_state()` is called
            before each pass, if it exists.
        processes: the number of processes.
        gpus: the index of the visible GPU of each process; None: they compute on the CPU and share its cores.

    Raises:
        ConfigError: an argument has a wrong type or value.
    """

    def __init__(
        self,
        config: PredictConfig,
        dataflow: Iterable[Any],
        processes: int,
        gpus: Sequence[int] | None = None,
    ) -> None:
        name = type(self).__name__
        at_least(name, "processes", processes)
        if gpus is not None and len(gpus) != processes:
            raise ConfigError(f"{name}(gpus={gpus!r}): expected {processes} numbers, one for each process.")
        self._config, self._flow = config, as_flow(name, dataflow)
        self._gpus: Sequence[int | None] = [None] * processes if gpus is None else gpus
        self._processes: PredictProcesses | None = None
        self._passes, self._closed = 0, False

    def get_result(self) -> Iterator[Any]:
        """Yields the result of an `OfflinePredictor` for each datapoint of one pass.

        If a process dies, the others are ended, and the next pass starts new ones.

        Raises:
            PredictorProcessError: a process died, or raised an error that cannot be sent.
            PredictorInputError: a datapoint does not match the model.
            TrainerStateError: the predictor is closed, or another pass has begun.
            Exception: an error of the flow or of a process, with its original type; a note has the process,
                the datapoint's number and the traceback there.
        """
        if self._closed:
            raise TrainerStateError(
                "This MultiProcessDatasetPredictor is closed. Use it inside its `with` block."
            )
        self._passes += 1
        for result in self._predict_all(self._passes):
            if isinstance(result, BaseException):
                raise result
            yield result

    def close(self) -> None:
        """Ends the processes. A second call does nothing."""
        self._closed = True
        self._end()

    def _predict_all(self, number_of_pass: int) -> Iterator[Any]:
        processes = self._start()
        tasks = enumerate(restarted(self._flow))
        results: dict[int, Any] = {}
        sent, yielded, ended = 0, 0, False
        while not ended or yielded < sent:
            if not ended and sent - yielded < _MOST_AHEAD * len(self._gpus) and processes.have_room():
                task = next(tasks, None)
                ended = task is None
                if task is not None:
                    with self._ended_by_errors():
                        processes.send(*task)
                    sent += 1
            elif yielded in results:
                yield results.pop(yielded)
                yielded += 1
                if self._closed or self._passes != number_of_pass:
                    raise TrainerStateError(OTHER_PASS)
            else:
                with self._ended_by_errors():
                    results.update(processes.receive())

    def _start(self) -> PredictProcesses:
        if self._processes is not None:
            try:
                self._processes.drain()  # answers to a pass that was left before its end
            except PredictorProcessError as error:
                _log.warning("Starting new processes: %s", error)
                self._end()
        if self._processes is None:
            self._processes = PredictProcesses(self._config, self._gpus)
            self._at_exit = weakref.finalize(self, self._processes.close)
        return self._processes

    @contextlib.contextmanager
    def _ended_by_errors(self) -> Iterator[None]:
        try:
            yield
        except Exception:
            self._end()
            raise

    def _end(self) -> None:
        if self._processes is not None:
            self._at_exit()
            self._processes = None
