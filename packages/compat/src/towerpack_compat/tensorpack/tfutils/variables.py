"""`tensorpack.tfutils.varmanip`: checkpoints and the values of variables."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from towerpack_callbacks.checkpoint import load_variables

from ..utils import logger

__all__ = [
    "dump_session_params",
    "get_all_checkpoints",
    "get_checkpoint_path",
    "get_savename_from_varname",
    "is_training_name",
    "load_checkpoint_vars",
    "load_chkpt_vars",
    "save_checkpoint_vars",
    "save_chkpt_vars",
]


# Variables of optimizers and trainers, not of the model; missing ones are not worth a log line.
_OF_TRAINING = re.compile(
    r"(/Adam(_1)?|/Momentum|/AccumGrad|/RMSProp(_1)?|beta[12]_power)$"
    r"|EMA_summary/|global_step|learning_rate|queue_size|apply_gradients/"
)


def get_savename_from_varname(
    varname: str, varname_prefix: str | None = None, savename_prefix: str | None = None
) -> str:
    """Returns the name of a variable in a checkpoint."""
    name = varname.removeprefix(f"{varname_prefix}/") if varname_prefix else varname
    return f"{savename_prefix}/{name}" if savename_prefix else name


def is_training_name(name: str) -> bool:
    """Returns whether a variable belongs to the training and not to the model, such as an optimizer's."""
    return _OF_TRAINING.search(name.removesuffix(":0")) is not None


def get_checkpoint_path(path: Any) -> str:
    """Returns the path of a checkpoint, given the file `checkpoint`, one of its files, or its path.

    Raises:
        FileNotFoundError: the checkpoint does not exist.
    """
    text = os.path.expanduser(os.fspath(path))
    if os.path.basename(text) == "checkpoint":
        found = tf.train.latest_checkpoint(os.path.dirname(text) or ".")
        if found is None:
            raise FileNotFoundError(f"The checkpoint named in {text} does not exist.")
        return str(found)
    for ending in (".index", ".meta"):
        text = text.removesuffix(ending)
    if ".data-" in os.path.basename(text):
        text = text[: text.rindex(".data-")]
    if not (os.path.exists(text) or os.path.exists(f"{text}.index")):
        raise FileNotFoundError(f"The checkpoint {text} does not exist.")
    return text


def get_all_checkpoints(dir: str, prefix: str = "model") -> list[tuple[str, int]]:
    """Returns the checkpoints of a directory as pairs of path and step, oldest first."""
    steps = []
    for index in Path(dir).glob(f"{prefix}-*.index"):
        step = index.name.removeprefix(f"{prefix}-").removesuffix(".index")
        if step.isdigit():
            steps.append((str(index).removesuffix(".index"), int(step)))
    return sorted(steps, key=lambda pair: pair[1])


def dump_session_params(path: str) -> None:
    """Writes the model's variables of the default session to an `.npz` file."""
    keys = (tf.GraphKeys.TRAINABLE_VARIABLES, tf.GraphKeys.MODEL_VARIABLES)
    chosen = {variable.name: variable for key in keys for variable in tf.get_collection(key)}
    save_checkpoint_vars(tf.get_default_session().run(chosen), path)


def save_checkpoint_vars(dic: Mapping[str, Any], path: str) -> None:
    """Writes variables to an `.npz` file or, for paths with another suffix, to a TensorFlow checkpoint."""
    logger.info("Variables to save to %s: %s", path, ", ".join(sorted(dic)))
    if path.endswith(".npz"):
        np.savez_compressed(path, **dic)
        return
    with tf.Graph().as_default(), tf.Session() as sess:
        for name, value in dic.items():
            tf.get_variable(name.removesuffix(":0"), initializer=tf.constant(value))
        sess.run(tf.global_variables_initializer())
        tf.train.Saver().save(sess, path, write_meta_graph=False)


def load_checkpoint_vars(path: str) -> dict[str, Any]:
    """Returns the variables of a checkpoint, by their names."""
    return dict(load_variables(get_checkpoint_path(path)))


load_chkpt_vars, save_chkpt_vars = load_checkpoint_vars, save_checkpoint_vars
