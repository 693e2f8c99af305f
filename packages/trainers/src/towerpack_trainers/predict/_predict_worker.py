"""The main program of a prediction process: builds the model, and answers datapoints of a pipe."""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import sys
import threading
import traceback
from multiprocessing.connection import Connection
from typing import Any, final

import attrs

from ..towers._devices import default_session_config
from ._dataset_predictor import arguments_of
from ._offline_predictor import OfflinePredictor
from ._predict_config import PredictConfig

__all__ = ["PredictionFailure", "main"]


@final
@attrs.frozen
class PredictionFailure:
    """An error of a worker in a form that can be sent.

    Attributes:
        pickled: the exception; empty if it cannot be pickled.
        trace: its traceback, as text.
    """

    pickled: bytes
    trace: str

    @classmethod
    def of(cls, error: BaseException) -> PredictionFailure:
        """Packs an exception, if its pickle restores an equal exception."""
        pickled = b""
        try:
            pickled = pickle.dumps(error)
            if type(pickle.loads(pickled)) is not type(error):
                pickled = b""
        except Exception:  # pickling a user's exception may raise any error; only the text is sent then
            pickled = b""
        return cls(pickled, "".join(traceback.format_exception(error)))


def main() -> None:
    """Answers the datapoints of a pipe until it ends; the first argument is the number of the pipe."""
    # Ctrl-C reaches all processes of a terminal; the parent ends this one through its pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pipe = Connection(int(sys.argv[1]))
    # The parent has closed the pipe, or has died.
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        _serve(pipe, int(sys.argv[2]))
    # Exits without waiting for TensorFlow's threads, which may still run.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _serve(pipe: Connection, processes: int) -> None:
    try:
        config: PredictConfig = pickle.loads(pipe.recv_bytes())
        predict = OfflinePredictor(_with_threads(config, processes))
    except (EOFError, ConnectionResetError):
        raise
    except Exception as error:  # a model or a checkpoint may raise any error
        pipe.send((None, PredictionFailure.of(error)))
        return
    names = [tensor.op.name for tensor in predict.inputs]
    pipe.send((None, None))
    tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(pipe, tasks), daemon=True).start()
    while (task := tasks.get()) is not None:
        number, datapoint = task
        try:
            result: Any = predict(*arguments_of(datapoint, names))
        except Exception as error:
            result = PredictionFailure.of(error)
        pipe.send((number, result))


def _receive(pipe: Connection, tasks: queue.SimpleQueue[Any]) -> None:
    """Reads continuously, so that the parent never waits for this process while this process waits for it."""
    try:
        while True:
            tasks.put(pipe.recv())
    except (EOFError, ConnectionResetError):
        tasks.put(None)


def _with_threads(config: PredictConfig, processes: int) -> PredictConfig:
    """Divides the cores among the processes, unless session options are given."""
    if config.session_config is not None:
        return config
    options = default_session_config()
    options.inter_op_parallelism_threads = max(1, (os.cpu_count() or 1) // processes)
    return attrs.evolve(config, session_config=options)
