"""Prediction for all datapoints of a flow in several processes, as controlled by their parent."""

from __future__ import annotations

import contextlib
import io
import logging
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing import connection
from types import CodeType
from typing import Any, final

import cloudpickle

from .._argument_checks import at_least
from .._errors import ConfigError, PredictorProcessError, TrainerStateError
from ._dataset_predictor import OTHER_PASS, DatasetPredictor, as_flow, restarted
from ._predict_config import PredictConfig
from ._predict_worker import PredictionFailure

__all__ = ["MultiProcessDatasetPredictor", "PredictProcess", "PredictProcesses"]

_log = logging.getLogger("towerpack_trainers")


_PROGRAM = "from towerpack_trainers.predict._predict_worker import main; main()"
# The maximum number of datapoints of a process: one in computation, and one waiting.
_DATAPOINTS_AHEAD = 2
# The time, in seconds, for a process to end before it is killed.
_SECONDS_TO_END = 5.0


@final
class PredictProcess:
    """One process with its current datapoints.

    Args:
        name: its name in messages.
        config: the pickled `PredictConfig`.
        processes: the number of processes.
        gpu: the index of its only visible GPU; None: no GPU.

    Attributes:
        pipe: the parent's end of the connection.
    """

    def __init__(self, name: str, config: bytes, processes: int, gpu: int | None) -> None:
        self._name, self._ready = name, False
        self._tasks: list[int] = []
        self.pipe, theirs = multiprocessing.Pipe()
        visible = "-1" if gpu is None else _visible_gpu(gpu)
        path = os.pathsep.join(filter(None, sys.path))
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(theirs.fileno()), str(processes)],
                pass_fds=[theirs.fileno()],
                env={**os.environ, "CUDA_VISIBLE_DEVICES": visible, "PYTHONPATH": path},
            )
        with self._noticing_death():
            self.pipe.send_bytes(config)

    @property
    def load(self) -> int:
        """The number of its datapoints."""
        return len(self._tasks)

    @property
    def has_room(self) -> bool:
        """Whether it can take one more datapoint."""
        return self.load < _DATAPOINTS_AHEAD

    @property
    def is_busy(self) -> bool:
        """Whether an answer is pending."""
        return bool(self._tasks) or not self._ready

    def send(self, number: int, datapoint: Any) -> None:
        """Sends a datapoint to the process.

        Raises:
            PredictorProcessError: the process died.
        """
        self._tasks.append(number)
        with self._noticing_death():
            self.pipe.send((number, datapoint))

    def receive(self) -> tuple[int | None, Any]:
        """Returns the next answer: the datapoint's number, and the result or the raised exception.

        The first answer has no number; it reports that the model is built.

        Raises:
            PredictorProcessError: the process died.
            Exception: an error while the model was built.
        """
        with self._noticing_death():
            number, result = self.pipe.recv()
        if isinstance(result, PredictionFailure):
            result = self._rebuilt(number, result)
        if number is not None:
            self._tasks.remove(number)
        elif result is not None:
            raise result
        self._ready = True
        return number, result

    def tell_to_end(self) -> None:
        """Closes the pipe, which makes the process end."""
        self.pipe.close()

    def wait(self) -> None:
        """Waits until the process has ended; kills it after a time-out."""
        try:
            self._process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @contextlib.contextmanager
    def _noticing_death(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, ConnectionResetError, BrokenPipeError):
            self._process.wait()
            raise PredictorProcessError(
                f"{self._name} {_describe_end(self._process.returncode)} {self._occupation()}. The processes "
                "of this predictor have been ended; a new pass starts new ones."
            ) from None

    def _occupation(self) -> str:
        if not self._ready:
            return "before it had built the model; see its standard error for details"
        return f"while it predicted datapoint {self._tasks[0]}" if self._tasks else "between two datapoints"

    def _rebuilt(self, number: int | None, failure: PredictionFailure) -> BaseException:
        at = "while it built the model" if number is None else f"for datapoint {number}"
        if not failure.pickled:
            return PredictorProcessError(f"{self._name} raised an error {at}:\n{failure.trace}")
        error: BaseException = pickle.loads(failure.pickled)
        error.add_note(f"{self._name} raised this {at}:\n{failure.trace}")
        return error


@final
class PredictProcesses:
    """Several processes with the same model.

    Args:
        config: the configuration of each process.
        gpus: the GPU of each process; None: it computes on the CPU.

    Raises:
        ConfigError: `config` cannot be sent to a process.
    """

    def __init__(self, config: PredictConfig, gpus: Sequence[int | None]) -> None:
        pickled, count = _pickled(config), len(gpus)
        self._processes: list[PredictProcess] = []
        try:
            for number, gpu in enumerate(gpus):
                name = f"Process {number} of {count}"
                self._processes.append(PredictProcess(name, pickled, count, gpu))
        except BaseException:
            self.close()
            raise

    def have_room(self) -> bool:
        """Returns whether a process can take a datapoint."""
        return any(process.has_room for process in self._processes)

    def send(self, number: int, datapoint: Any) -> None:
        """Sends a datapoint to the process with the fewest datapoints.

        Raises:
            PredictorProcessError: that process died.
        """
        min(self._processes, key=lambda process: process.load).send(number, datapoint)

    def receive(self) -> dict[int, Any]:
        """Waits for answers; returns all available results or exceptions, by the datapoints' numbers.

        Raises:
            PredictorProcessError: a process died.
            Exception: an error while the model was built.
        """
        by_pipe = {process.pipe: process for process in self._processes if process.is_busy}
        answers = [by_pipe[pipe].receive() for pipe in connection.wait(list(by_pipe))]  # type: ignore[index]
        return {number: result for number, result in answers if number is not None}

    def drain(self) -> None:
        """Waits for all pending answers, and drops them."""
        while any(process.load for process in self._processes):
            self.receive()

    def close(self) -> None:
        """Ends all processes. A second call does nothing."""
        for process in self._processes:
            process.tell_to_end()
        for process in self._processes:
            process.wait()
        self._processes.clear()


def _visible_gpu(number: int) -> str:
    """Returns the name of a GPU in the environment: only some of the host's GPUs may be visible here."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = None if visible is None else visible.split(",")
    if names is not None and number not in range(len(names)):
        raise ConfigError(
            f"gpus=[...] names GPU {number}, but CUDA_VISIBLE_DEVICES={visible!r} allows this process only "
            f"{len(names)}."
        )
    return str(number) if names is None else names[number]


def _pickled(config: PredictConfig) -> bytes:
    file = io.BytesIO()
    try:
        _ConfigPickler(file).dump(config)
        return file.getvalue()
    except Exception as error:  # pickling a user's objects may raise any error
        raise ConfigError(
            f"The PredictConfig cannot be sent to a process: {type(error).__name__}: {error}. Remove objects "
            "that cannot be pickled, such as open files and sessions, from the model."
        ) from error


@final
class _ConfigPickler(cloudpickle.Pickler):
    """Keeps the file names of code objects, which cloudpickle 3.1.3 replaces by a single name.

    Otherwise the traceback of an error in the model would not show its lines. towerpack_dataflow does the
    same for its workers.
    """

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, CodeType):
            make, arguments = self.dispatch_table[CodeType](obj)
            return _code_of_file, (obj.co_filename, make, arguments)
        return super().reducer_override(obj)


def _code_of_file(name: str, make: Callable[..., CodeType], arguments: tuple[Any, ...]) -> CodeType:
    return make(*arguments).replace(co_filename=name)


def _describe_end(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was killed by {name}"


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

    Example:
        ```python
        with MultiProcessDatasetPredictor(config, BatchData(images, 64), processes=4) as predictor:
            logits = [batch for (batch,) in predictor.get_result()]
        ```
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
