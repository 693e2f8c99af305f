"""Tower contexts, functions that record each of their calls, and predictors in an existing session."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from operator import attrgetter
from types import TracebackType
from typing import Any

import tensorflow.compat.v1 as tf

import towerpack_layers as layers
import towerpack_trainers as trainers
from towerpack_callbacks import MOVING_SUMMARIES

from ...tensorflow1._variables import tensor_by_name
from ..models import tensorpack_rules

__all__ = [
    "BaseTowerContext",
    "OnlinePredictor",
    "PredictTowerContext",
    "PredictorBase",
    "TowerContext",
    "TowerFunc",
    "TowerFuncWrapper",
    "TowerTensorHandle",
    "TowerTensorHandles",
    "TrainTowerContext",
    "get_current_tower_context",
]


_NOT_OF_MAIN = (tf.GraphKeys.SUMMARIES, MOVING_SUMMARIES)
_OF_TRAINING = (*_NOT_OF_MAIN, tf.GraphKeys.UPDATE_OPS)


class BaseTowerContext:
    """One replica of a model, with the interface that Tensorpack's layers and models use."""

    def __init__(self, inner: layers.TowerContext, total: int = 1, shares: bool = False) -> None:
        self.inner, self.total, self._shares = inner, total, shares
        self._lengths: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:
        """Returns what Towerpack's context calls alike: `name`, `is_training`, `index` and others."""
        return getattr(self.inner, name)

    ns_name = property(attrgetter("inner.name"), doc="The name scope.")
    vs_name = property(attrgetter("inner.variable_scope"), doc="The variable scope.")

    @property
    def has_own_variables(self) -> bool:
        """Whether the replica creates trainable variables."""
        return not self._shares and (self.index == 0 or bool(self.vs_name))

    def __enter__(self) -> BaseTowerContext:
        keys = () if self.is_main_training_tower else _NOT_OF_MAIN if self.is_training else _OF_TRAINING
        self._lengths = {key: len(tf.get_collection_ref(key)) for key in keys}
        self._trained = len(tf.trainable_variables())
        self._rules = tensorpack_rules()
        self._rules.__enter__()
        self.inner.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.inner.__exit__(kind, error, trace)
        self._rules.__exit__(None, None, None)
        for key, length in self._lengths.items():
            del tf.get_collection_ref(key)[length:]
        shared = kind is None and not self.has_own_variables
        added = [each.op.name for each in tf.trainable_variables()[self._trained :] if shared]
        assert not added, (
            f"New TRAINABLE_VARIABLES shouldn't be created in {self.name}: {', '.join(added)}. "
            "Make a Keras model once, outside of the tower function, and call it there."
        )


def TrainTowerContext(ns_name: str, vs_name: str = "", index: int = 0, total: int = 1) -> BaseTowerContext:
    """Returns the context of a training tower."""
    inner = layers.TowerContext(
        ns_name, is_training=True, variable_scope=vs_name, index=index, num_towers=max(total, index + 1)
    )
    return BaseTowerContext(inner, total, bool(tf.get_variable_scope().reuse))


def PredictTowerContext(ns_name: str, vs_name: str = "") -> BaseTowerContext:
    """Returns the context of a tower that does not train."""
    inner = layers.TowerContext(ns_name, is_training=False, variable_scope=vs_name)
    return BaseTowerContext(inner, shares=bool(tf.get_variable_scope().reuse))


def TowerContext(tower_name: str, is_training: bool, vs_name: str = "") -> BaseTowerContext:
    """Returns the context for the call of a tower function.

    Args:
        tower_name: the name scope.
        is_training: whether the tower trains.
        vs_name: the variable scope.
    """
    return (TrainTowerContext if is_training else PredictTowerContext)(tower_name, vs_name)


def get_current_tower_context() -> BaseTowerContext | None:
    """Returns the current context; None outside of one."""
    inner = layers.get_current_tower_context()
    if inner is None:
        return None
    return BaseTowerContext(inner, inner.num_towers, bool(tf.get_variable_scope().reuse))


class TowerFunc:
    """A function that builds one replica and records its calls.

    Args:
        tower_fn: takes one tensor for each input.
        input_signature: the inputs, a list of `tf.TensorSpec`.
    """

    def __new__(cls, tower_fn: Any, input_signature: Any = None) -> TowerFunc:
        return tower_fn if isinstance(tower_fn, TowerFunc) else super().__new__(cls)

    def __init__(self, tower_fn: Any, input_signature: Sequence[tf.TensorSpec] | None = None) -> None:
        if tower_fn is self:
            return
        self._function: Callable[..., Any] = tower_fn
        self.input_signature = list(input_signature or ())
        self._handles: list[TowerTensorHandle] = []
        # Towerpack's builders call this function, within their own contexts.
        self.inner = trainers.TowerFunc(self._call, self.input_signature)
        self.specs = self.inner.specs

    def __call__(self, *inputs: Any) -> Any:
        """Builds one replica within the current context."""
        context = layers.get_current_tower_context()
        assert context is not None, "Function must be called under TowerContext!"
        output = self._call(*inputs)
        by_name = {spec.name: tensor for spec, tensor in zip(self.specs, inputs)}
        trained = tuple(tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES))
        tower = trainers.Tower(context, by_name, output, tf.get_default_graph(), trained)
        self.inner.towers.append(tower)
        return output

    def _call(self, *inputs: Any) -> Any:
        output = self._function(*inputs)
        context = get_current_tower_context()
        assert context is not None
        self._handles.append(TowerTensorHandle(context, inputs, output, self.input_signature))
        return output

    def build(self, context: layers.TowerContext, inputs: Sequence[tf.Tensor]) -> trainers.Tower:
        """Builds one replica within a context of Towerpack."""
        return self.inner.build(context, inputs)

    training = property(attrgetter("inner.training"), doc="The training towers, as Towerpack's objects.")

    @property
    def towers(self) -> TowerTensorHandles:
        """The replicas, by index or name."""
        return TowerTensorHandles(self._handles)


TowerFuncWrapper = TowerFunc


class TowerTensorHandles(list["TowerTensorHandle"]):
    """Replicas by index or name."""

    def __getitem__(self, name_or_index: int | str) -> TowerTensorHandle:  # type: ignore[override]
        if isinstance(name_or_index, int):
            return super().__getitem__(name_or_index)
        return {handle.ns_name: handle for handle in self}[name_or_index]

    def training(self) -> TowerTensorHandles:
        """Returns the training replicas."""
        return TowerTensorHandles(handle for handle in self if handle.is_training)

    def inference(self) -> TowerTensorHandles:
        """Returns the replicas that do not train."""
        return TowerTensorHandles(handle for handle in self if not handle.is_training)


class TowerTensorHandle:
    """One replica: its inputs, outputs, tensors and variables."""

    def __init__(
        self, context: BaseTowerContext, inputs: Sequence[Any], outputs: Any, signature: Sequence[Any] = ()
    ) -> None:
        self._context, self.inputs, self.outputs = context, list(inputs), outputs
        self.input, self.output = self.inputs, outputs
        self._by_name = {spec.name: tensor for spec, tensor in zip(signature, inputs)}
        self.ns_name, self.vs_name, self.is_training = context.name, context.vs_name, context.is_training
        self._graph = tf.get_default_graph()

    def get_tensor(self, name: str) -> Any:
        """Returns a tensor or variable of the replica by its name without the tower's scope."""
        plain = name.removesuffix(":0")
        if plain in self._by_name:
            return self._by_name[plain]
        try:
            return self._found(f"{self.ns_name}/{plain}" if self.ns_name else plain)
        except KeyError:
            return self.get_variable(plain)

    __getitem__ = get_tensor

    def get_tensors(self, names: Sequence[str]) -> list[Any]:
        """Returns several tensors."""
        return [self.get_tensor(name) for name in names]

    def get_variable(self, name: str) -> Any:
        """Returns the tensor of a variable, by its name without the tower's variable scope."""
        plain = name.removesuffix(":0")
        return self._found(f"{self.vs_name}/{plain}" if self.vs_name else plain)

    def get_variables(self, names: Sequence[str]) -> list[Any]:
        """Returns several variables."""
        return [self.get_variable(name) for name in names]

    def get_collection(self, key: str | None = None, name: str | None = None) -> list[Any]:
        """Returns the items that the replica added to a collection."""
        prefix = f"{self.ns_name}/" if self.ns_name else ""
        items = self._graph.get_collection(key or name)
        return [item for item in items if getattr(item, "name", "").startswith(prefix)]

    def _found(self, name: str) -> Any:
        return tensor_by_name(self._graph, f"{name}:0")


class PredictorBase(abc.ABC):
    """A function from inputs to outputs."""

    return_input = False

    def __call__(self, *dp: Any) -> Any:
        """Predicts for one batch, and returns the outputs; with `return_input`, also the inputs."""
        outputs = self._do_call(dp)
        return (dp, outputs) if self.return_input else outputs

    @abc.abstractmethod
    def _do_call(self, dp: Sequence[Any]) -> list[Any]:
        """Predicts for one batch."""


class OnlinePredictor(PredictorBase):
    """Predicts in an existing session, by default the default session at the first call.

    Args:
        input_tensors: tensors to feed.
        output_tensors: tensors to fetch.
        return_input: whether a call also returns its inputs.
        sess: the session.
    """

    ACCEPT_OPTIONS = False

    def __init__(
        self,
        input_tensors: Sequence[tf.Tensor],
        output_tensors: Sequence[tf.Tensor],
        return_input: bool = False,
        sess: tf.Session | None = None,
    ) -> None:
        self.input_tensors, self.output_tensors = input_tensors, output_tensors
        self.return_input, self.sess = return_input, sess
        self._call: Callable[..., list[Any]] | None = None

    def _do_call(self, dp: Sequence[Any]) -> list[Any]:
        assert len(dp) == len(self.input_tensors), f"{len(dp)} != {len(self.input_tensors)}"
        if self._call is None:
            self.sess = self.sess or tf.get_default_session()
            self._call = self.sess.make_callable(self.output_tensors, self.input_tensors)
        return list(self._call(*dp))
