"""The configuration of a predictor, checked when it is made."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf
from attrs.validators import optional

from .._argument_checks import explain_misuse, instance_of
from .._errors import ConfigError
from ..restore._session_init import SessionInit
from ..towers._devices import default_session_config
from ..towers._model_desc import ModelDesc
from ..towers._tower import TowerFunc

__all__ = ["PredictConfig"]

_log = logging.getLogger("towerpack_trainers")


@final
@explain_misuse
@attrs.frozen(kw_only=True)
class PredictConfig:
    """The model, the values and the tensors of a predictor that needs no trainer.

    Args:
        model: the model; its evaluation replica is built.
        tower_func: a function that builds a replica from one tensor per spec, instead of `model`; see
            `ModelDesc.build_graph`.
        input_signature: the specs of its inputs; required with `tower_func`.
        session_init: the source of the variables' values, such as `SaverRestore("train_log/run/latest")`;
            None: their initializers, with a warning if any of them are trainable.
        output_names: names of the tensors to fetch, as in the model.
        input_names: names of inputs or tensors to feed; None: all inputs.
        return_input: whether a call returns a pair: the arrays fed, and the outputs.
        ema: whether the moving averages of the callback `EMA` replace the weights when values are restored.
            Variables without an average keep their restored values.
        session_config: options of the session, used unchanged; None: `default_session_config()`.

    Raises:
        ConfigError: the arguments contradict each other, or an argument has a wrong type or value.

    Example:
        >>> from towerpack_trainers import OfflinePredictor
        >>> double = PredictConfig(
        ...     tower_func=lambda x: tf.multiply(x, 2, name="doubled"),
        ...     input_signature=[tf.TensorSpec([None], tf.float32, "x")],
        ...     output_names=["doubled"],
        ... )
        >>> with OfflinePredictor(double) as predict:
        ...     print(predict([1.0, 2.0]))
        [array([2., 4.], dtype=float32)]
    """

    model: ModelDesc | None = attrs.field(
        default=None, validator=optional(instance_of(ModelDesc, "a ModelDesc object"))
    )
    tower_func: Callable[..., Any] | None = attrs.field(default=None)
    input_signature: Sequence[tf.TensorSpec] | None = None
    session_init: SessionInit | None = attrs.field(
        default=None,
        validator=optional(instance_of(SessionInit, "a SessionInit, such as SaverRestore(path)")),
    )
    output_names: Sequence[str]
    input_names: Sequence[str] | None = None
    return_input: bool = attrs.field(default=False, validator=instance_of(bool, "True or False"))
    ema: bool = attrs.field(default=False, validator=instance_of(bool, "True or False"))
    session_config: tf.ConfigProto | None = attrs.field(
        default=None, validator=optional(instance_of(tf.ConfigProto, "a tf.ConfigProto"))
    )

    def __attrs_post_init__(self) -> None:
        if (self.model is None) == (self.tower_func is None):
            raise ConfigError(
                "PredictConfig needs either model=... or tower_func=... with input_signature=[...]; received "
                f"{'neither' if self.model is None else 'both'}."
            )
        if (self.tower_func is None) != (self.input_signature is None):
            raise ConfigError(
                "PredictConfig(tower_func=...) and input_signature=[...] belong together; received "
                f"tower_func={self.tower_func!r}, input_signature={self.input_signature!r}."
            )
        if self.tower_func is not None and not callable(self.tower_func):
            raise ConfigError(
                f"PredictConfig(tower_func=...) received {self.tower_func!r} of type "
                f"{type(self.tower_func).__name__}; expected a function of one tensor per input."
            )
        if self.ema and self.session_init is None:
            raise ConfigError(
                "PredictConfig(ema=True) takes averages from a checkpoint, but received no session_init. "
                "Pass one, such as SaverRestore(path)."
            )

    def make_tower_func(self) -> TowerFunc:
        """Makes the function that builds replicas; no replica is built yet.

        Raises:
            ModelError: a spec is not a `tf.TensorSpec` with a valid and unique name.
        """
        if self.model is not None:
            return TowerFunc(self.model.build_graph, self.model.inputs())
        assert self.tower_func is not None and self.input_signature is not None
        return TowerFunc(self.tower_func, self.input_signature)

    def make_session_config(self, devices: Sequence[str] = ()) -> tf.ConfigProto:
        """Returns the options of a session with replicas on the given devices."""
        return self.session_config or default_session_config(devices)

    def restore(self, sess: tf.Session) -> None:
        """Restores the values of a session's variables.

        Raises:
            RestoreError, CheckpointError: the values do not match, lack averages, or cannot be read.
        """
        if self.session_init is not None:
            (self.session_init.averaged() if self.ema else self.session_init).restore(sess)
        elif untrained := sess.graph.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES):
            _log.warning(
                "PredictConfig received no session_init: the trainable variables (%d, such as %s) keep their "
                "initial values, so the model is untrained. Pass session_init=SaverRestore(path).",
                len(untrained),
                untrained[0].op.name,
            )
