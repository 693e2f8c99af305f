"""Storage of values that change during training."""

from __future__ import annotations

import abc
from typing import Any, final

import numpy as np
import tensorflow.compat.v1 as tf

from .._errors import TensorNotFoundError
from ..callback._trainer_protocol import TrainerProtocol

__all__ = ["GraphVarParam", "HyperParam", "ObjAttrParam"]


class HyperParam(abc.ABC):
    """A value that a setter can change.

    Attributes:
        readable_name: its name in logs.

    Example:
        >>> class Rate(HyperParam):
        ...     readable_name = "noise"
        ...
        ...     def __init__(self, settings):
        ...         self.settings = settings
        ...
        ...     def get_value(self):
        ...         return self.settings["noise"]
        ...
        ...     def set_value(self, value):
        ...         self.settings["noise"] = value
        >>> rate = Rate({"noise": 0.1})
        >>> rate.set_value(0.2)
        >>> rate.get_value()
        0.2
    """

    readable_name: str

    def setup_graph(self, trainer: TrainerProtocol) -> None:
        """Adds the required ops; called while the graph is set up."""

    @abc.abstractmethod
    def get_value(self) -> Any:
        """Returns the current value."""

    @abc.abstractmethod
    def set_value(self, value: Any) -> None:
        """Sets a new value."""


@final
class GraphVarParam(HyperParam):
    """A variable of the graph, such as "learning_rate". Checkpoints include it like any variable.

    Args:
        name: name of a global or local variable.
        shape: its shape.

    Raises:
        TensorNotFoundError: (at set-up) the graph has no such variable.
        ValueError: (at set-up) the variable has another shape; (when set) a value has another shape.
        TypeError: (when set) the value for an integer variable has a fraction.

    Example:
        >>> from towerpack_callbacks import ScheduledHyperParamSetter
        >>> callbacks = [ScheduledHyperParamSetter(GraphVarParam("learning_rate"), [(1, 0.1), (10, 0.01)])]
    """

    def __init__(self, name: str, shape: tuple[int, ...] = ()) -> None:
        self.name = name.removesuffix(":0")
        self.shape = tuple(shape)
        self.readable_name = self.name

    def setup_graph(self, trainer: TrainerProtocol) -> None:
        variable = self._find(trainer.graph)
        if tuple(variable.shape.as_list()) != self.shape:
            raise ValueError(
                f"GraphVarParam({self.name!r}, shape={self.shape}): the variable has shape {variable.shape}."
            )
        self._dtype = np.dtype(variable.dtype.base_dtype.as_numpy_dtype)
        self._trainer = trainer
        self._new_value = tf.placeholder(variable.dtype.base_dtype, self.shape)
        self._assign = tf.assign(variable, self._new_value).op
        self._value = tf.identity(variable)
        self._sess: tf.Session = None

    def _find(self, graph: tf.Graph) -> tf.Variable:
        with graph.as_default():
            variables = {v.op.name: v for v in [*tf.global_variables(), *tf.local_variables()]}
        if self.name not in variables:
            raise TensorNotFoundError(
                f"The graph has no variable {self.name!r}. It has: {', '.join(sorted(variables)[:20])}. "
                'Create it in the model: tf.get_variable("learning_rate", initializer=0.1, trainable=False).'
            )
        return variables[self.name]

    def get_value(self) -> Any:
        self._prepare()
        value = self._read()
        return value.item() if self.shape == () else np.array(value)

    def set_value(self, value: Any) -> None:
        array = np.array(value)  # a copy: TensorFlow may alias a fed array
        if array.shape != self.shape:
            raise ValueError(
                f"{self.name} has shape {self.shape}; received {value!r} of shape {array.shape}."
            )
        if self._dtype.kind in "iu" and array.dtype.kind == "f":
            raise TypeError(
                f"{self.name} is an integer variable; received {value!r}. "
                "Give the variable the dtype tf.float32 to set fractions."
            )
        self._prepare()
        self._write(array.astype(self._dtype))

    def _prepare(self) -> None:
        if self._sess is not self._trainer.sess:
            self._sess = self._trainer.sess
            self._read = self._sess.make_callable(self._value)
            self._write = self._sess.make_callable(self._assign, feed_list=[self._new_value])


@final
class ObjAttrParam(HyperParam):
    """An attribute of a Python object, such as the augmentation rate of a flow.

    A new training starts with the value from before the first training, unless the attribute was changed
    between the two.

    Args:
        obj: the object.
        attrname: the attribute's name.
        readable_name: its name in logs; None: the attribute's name.

    Raises:
        AttributeError: the object has no such attribute.

    Example:
        >>> from types import SimpleNamespace
        >>> from towerpack_callbacks import ScheduledHyperParamSetter
        >>> flow = SimpleNamespace(noise=0.5)
        >>> callbacks = [ScheduledHyperParamSetter(ObjAttrParam(flow, "noise"), [(1, 0.5), (10, 0.1)])]
    """

    def __init__(self, obj: Any, attrname: str, readable_name: str | None = None) -> None:
        if not hasattr(obj, attrname):
            raise AttributeError(
                f"ObjAttrParam: {obj!r} has no attribute {attrname!r}. Set it in its __init__."
            )
        self._obj, self._attrname = obj, attrname
        self.readable_name = attrname if readable_name is None else readable_name
        # The values of the attribute before and after a training that has set it.
        self._found_and_left: tuple[Any, Any] | None = None

    def setup_graph(self, trainer: TrainerProtocol) -> None:
        if self._found_and_left is not None:
            found, left = self._found_and_left
            self._found_and_left = None
            if np.array_equal(self.get_value(), left):
                setattr(self._obj, self._attrname, found)

    def get_value(self) -> Any:
        return getattr(self._obj, self._attrname)

    def set_value(self, value: Any) -> None:
        found = self.get_value() if self._found_and_left is None else self._found_and_left[0]
        setattr(self._obj, self._attrname, value)
        self._found_and_left = (found, value)
