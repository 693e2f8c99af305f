"""Creation of sessions, and initialization of their variables."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

import towerpack_trainers as trainers
from towerpack_callbacks.checkpoint import load_variables

from ..utils import logger
from .variables import get_checkpoint_path, is_training_name

__all__ = [
    "ChainInit",
    "DictRestore",
    "JustCurrentSession",
    "NewSessionCreator",
    "ReuseSessionCreator",
    "SaverRestore",
    "SaverRestoreRelaxed",
    "SessionCreatorAdapter",
    "SessionInit",
    "SessionUpdate",
    "SmartInit",
    "device_name",
    "device_names",
    "fit_to_host",
    "get_default_sess_config",
    "get_model_loader",
]


def get_default_sess_config(mem_fraction: float | None = None) -> tf.ConfigProto:
    """Returns the options of a session.

    Args:
        mem_fraction: the share of a GPU's memory to allocate; None: on demand.
    """
    config = trainers.default_session_config([])
    config.allow_soft_placement = True
    if mem_fraction is not None:
        config.gpu_options.per_process_gpu_memory_fraction = mem_fraction
    return config


def fit_to_host(config: tf.ConfigProto) -> tf.ConfigProto:
    """Converts the layout NCHW on a host without GPUs, where its ops have no kernels."""
    if not trainers.get_num_gpu():
        rewriting = config.graph_options.rewrite_options
        rewriting.cpu_layout_conversion = RewriterConfig.NCHW_TO_NHWC
    return config


class NewSessionCreator(tf.train.SessionCreator):
    """Creates a session.

    Args:
        target: the target of the session.
        config: the options of the session; None: `get_default_sess_config()`.
    """

    def __init__(self, target: str = "", config: tf.ConfigProto | None = None) -> None:
        self.target, self.user_provided_config = target, config is not None
        self.config = get_default_sess_config() if config is None else config

    def create_session(self) -> tf.Session:
        """Creates the session, and initializes the graph's variables in it."""
        sess = tf.Session(target=self.target, config=fit_to_host(self.config))
        initial = [
            tf.global_variables_initializer(),
            tf.local_variables_initializer(),
            tf.tables_initializer(),
        ]
        sess.run(initial)
        return sess


class ReuseSessionCreator(tf.train.SessionCreator):
    """Returns an existing session.

    Args:
        sess: the session.
    """

    def __init__(self, sess: tf.Session) -> None:
        self.sess = sess

    def create_session(self) -> tf.Session:
        """Returns the session."""
        return self.sess


class SessionCreatorAdapter(tf.train.SessionCreator):
    """Modifies the session of another creator.

    Args:
        session_creator: the other creator.
        func: maps the session to the session to use.
    """

    def __init__(self, session_creator: Any, func: Any) -> None:
        self._creator, self._func = session_creator, func

    def create_session(self) -> Any:
        """Creates the session, and modifies it."""
        return self._func(self._creator.create_session())


class SessionInit(trainers.SessionInit):
    """Sets the values of variables; override `_setup_graph` and `_run_init`."""

    def init(self, sess: tf.Session) -> None:
        """Adds ops and assigns the values."""
        self._setup_graph()
        self._run_init(sess)

    def _setup_graph(self) -> None:
        """Adds ops to the graph, before it is final."""

    def _run_init(self, sess: tf.Session) -> None:
        """Assigns values to the variables."""

    def restore(self, sess: tf.Session) -> None:
        self._run_init(sess)


class JustCurrentSession(SessionInit):
    """Leaves all values unchanged."""


class ChainInit(SessionInit):
    """Applies several initializations in order.

    Args:
        sess_inits: the initializations.
    """

    def __init__(self, sess_inits: Sequence[SessionInit]) -> None:
        self.inits = list(sess_inits)

    def _setup_graph(self) -> None:
        for each in self.inits:
            each._setup_graph()

    def _run_init(self, sess: tf.Session) -> None:
        for each in self.inits:
            each._run_init(sess)


class SaverRestore(SessionInit):
    """Restores the variables of a checkpoint; logs all others, which keep their initial values.

    Args:
        model_path: a checkpoint of TensorFlow or Towerpack, or a file named `checkpoint`.
        prefix: a scope that precedes the checkpoint's names in the graph.
        ignore: names of variables to skip.
    """

    _relaxed = False

    def __init__(self, model_path: str, prefix: str | None = None, ignore: Iterable[str] = ()) -> None:
        self.path = get_checkpoint_path(model_path)
        self.prefix, self.ignore = prefix, [name.removesuffix(":0") for name in ignore]

    def _run_init(self, sess: tf.Session) -> None:
        logger.info("Restoring checkpoint from %s ...", self.path)
        values = {name: value for name, value in load_variables(self.path).items() if name not in self.ignore}
        scope = f"{self.prefix}/" if self.prefix else ""
        _assign(sess, {scope + name: value for name, value in values.items()}, "checkpoint", self._relaxed)


class SaverRestoreRelaxed(SaverRestore):
    """Like `SaverRestore`, but skips values of another shape with a warning."""

    _relaxed = True


class DictRestore(SessionInit):
    """Restores variables from a dictionary.

    Args:
        variable_dict: arrays by the names of variables.
        ignore_mismatch: skip arrays of another shape, with a warning.
    """

    def __init__(self, variable_dict: Mapping[str, Any], ignore_mismatch: bool = False) -> None:
        assert isinstance(variable_dict, dict), type(variable_dict)
        self._prms = {name.removesuffix(":0"): value for name, value in variable_dict.items()}
        self._ignore_mismatch = ignore_mismatch

    def _run_init(self, sess: tf.Session) -> None:
        _assign(sess, self._prms, "dict", self._ignore_mismatch)


def _assign(sess: tf.Session, values: Mapping[str, Any], source: str, relaxed: bool) -> None:
    variables = {
        variable.op.name: variable for variable in sess.graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)
    }
    found = [name for name in variables if name in values]
    missing = [name for name in variables if name not in values and not is_training_name(name)]
    unused = [name for name in values if name not in variables and not is_training_name(name)]
    message = "The following variables are in the %s, but not found in the %s: %s"
    for names, place, other in ((missing, "graph", source), (unused, source, "graph")):
        if names:
            logger.warn(message, place, other, ", ".join(sorted(names)))
    SessionUpdate(sess, [variables[name] for name in found], relaxed).update(
        {name: values[name] for name in found}
    )


class SessionUpdate:
    """Assigns values to variables of a session.

    Args:
        sess: the session.
        vars_to_update: the variables.
        ignore_mismatch: skip values of another shape, with a warning.
    """

    def __init__(
        self, sess: tf.Session, vars_to_update: Sequence[Any], ignore_mismatch: bool = False
    ) -> None:
        self.sess, self.name_map = sess, {variable.op.name: variable for variable in vars_to_update}
        self.ignore_mismatch = ignore_mismatch

    def update(self, prms: Mapping[str, Any]) -> None:
        """Assigns values by names of variables."""
        # In one run: each run of other ops prepares the whole graph again, a second for a large graph.
        assigns: list[Any] = []
        feeds: dict[Any, Any] = {}
        for name, value in prms.items():
            variable = self.name_map[name.removesuffix(":0")]
            fitted = self.relaxed_value_for_var(value, variable, self.ignore_mismatch)
            if fitted is None:
                continue
            if feeds.setdefault(variable.initializer.inputs[1], fitted) is fitted:
                assigns.append(variable.initializer)
            else:  # two variables share one initial tensor
                variable.load(fitted, self.sess)
        self.sess.run(assigns, feeds)

    @staticmethod
    def relaxed_value_for_var(value: Any, var: Any, ignore_mismatch: bool = False) -> np.ndarray | None:
        """Returns a value in the shape and dtype of a variable.

        Returns:
            None if the shape differs and `ignore_mismatch` is set.

        Raises:
            ValueError: the number of elements differs, or the dtypes differ in kind.
        """
        array, name, shape = np.asarray(value), var.op.name, tuple(var.shape.as_list())
        if array.shape != shape:
            message = f"Variable {name} has shape {shape}, but the value has shape {array.shape}"
            if array.size != np.prod(shape, dtype=int):
                if ignore_mismatch:
                    logger.warn("%s: the value is skipped.", message)
                    return None
                raise ValueError(f"{message}: cannot load the value.")
            logger.warn("%s: the value is reshaped.", message)
            array = array.reshape(shape)
        wanted = np.dtype(var.dtype.base_dtype.as_numpy_dtype)
        if array.dtype != wanted:
            kinds = (array.dtype.kind, wanted.kind)
            if kinds not in {("f", "f"), ("i", "i"), ("u", "u"), ("i", "u"), ("u", "i"), ("V", "f")}:
                raise ValueError(f"Variable {name} has dtype {wanted}, but the value has {array.dtype}.")
            logger.warn("Variable %s has dtype %s: the value of %s is cast.", name, wanted, array.dtype)
            array = array.astype(wanted)
        return array


def SmartInit(obj: Any, *, ignore_mismatch: bool = False) -> SessionInit:
    """Returns the `SessionInit` for a checkpoint, an `.npz` or `.npy` file, a dict, a list, or None.

    Args:
        obj: the source of the values.
        ignore_mismatch: skip values of another shape, with a warning.
    """
    if not obj:
        return JustCurrentSession()
    if isinstance(obj, SessionInit):
        return obj
    if isinstance(obj, list):
        return ChainInit([SmartInit(each, ignore_mismatch=ignore_mismatch) for each in obj])
    if isinstance(obj, dict):
        return DictRestore(obj, ignore_mismatch)
    path = os.path.expanduser(os.fspath(obj))
    if path.endswith(".npy"):
        # A file with a dict of arrays, as in Tensorpack's model zoo, is a pickle.
        return DictRestore(np.load(path, encoding="latin1", allow_pickle=True).item(), ignore_mismatch)
    if path.endswith(".npz"):
        with np.load(path) as arrays:
            return DictRestore(dict(arrays), ignore_mismatch)
    return (SaverRestoreRelaxed if ignore_mismatch else SaverRestore)(path)


get_model_loader = SmartInit


def device_name(number: int) -> str:
    """Returns the device of a GPU's index; -1 is the CPU."""
    return "/cpu:0" if number < 0 else device_names([number])[0]


def device_names(gpus: int | Sequence[int]) -> list[str]:
    """Returns the devices of towers; on a host without GPUs, one virtual CPU device for each tower."""
    numbers = list(range(gpus)) if isinstance(gpus, int) else list(gpus)
    if trainers.get_num_gpu():
        return [f"/gpu:{number}" for number in numbers]
    _warn()
    return [f"/cpu:{number}" for number in range(len(numbers))]


@functools.cache
def _warn() -> None:
    logger.warn("This host has no GPU: towers and predictors run on the CPU.")
