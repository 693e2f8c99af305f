"""Replicas of a model: their construction, their rules, and their tensors."""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

from towerpack_callbacks import MOVING_SUMMARIES, TensorNotFoundError, find_ancestors, find_tensors
from towerpack_callbacks.graph import sources_of
from towerpack_layers import TowerContext, get_current_tower_context

from .._errors import ConfigError, ModelError, TowerRuleError

__all__ = [
    "LAST_STEP",
    "Tower",
    "TowerFunc",
    "check_specs",
    "compile_training_towers",
    "declare_cost",
    "ended_apart_from",
    "ended_op",
    "leave_fusion_to_xla",
    "name_cost",
    "no_moving_summaries",
    "remove_xla_marks",
]

LAST_STEP = "last_step"
"""The name scope of a step's copy that follows other steps in the same session call."""

_NODE = re.compile(r"\{\{node ([^}]+)\}\}")


def ended_op(error: tf.errors.OpError, graph: tf.Graph) -> tf.Operation | None:
    """Returns the op in which a session call failed; None if the error does not name it.

    Args:
        error: the error.
        graph: the graph of the call. For a copy of an op, the original is returned.
    """
    if error.op is not None:
        return _original(error.op.name, graph)
    named = [_original(name, graph) for name in _NODE.findall(error.message or "")]
    return next((op for op in named if op is not None), None)


def ended_apart_from(
    targets: Iterable[tf.Tensor | tf.Operation], error: tf.errors.OpError, graph: tf.Graph
) -> tf.Operation | None:
    """Returns the op in which a session call failed, if no target depends on it, or None.

    Args:
        targets: tensors and ops.
        error: the error.
        graph: the graph of the call.

    Returns:
        The op; also None if the error does not name it.
    """
    op = ended_op(error, graph)
    return None if op is None or op in find_ancestors(targets) else op


def _original(name: str, graph: tf.Graph) -> tf.Operation | None:
    """Returns the op of the given name; for a copy in a separate scope, such as "step/", the original op."""
    scope, _, inside = name.partition("/")
    if re.fullmatch(rf"{LAST_STEP}(_\d+)?", scope):  # this copy is in the same graph
        name = inside
    while name:
        try:
            return graph.get_operation_by_name(name)
        except KeyError:
            _, _, name = name.partition("/")
    return None


_log = logging.getLogger("towerpack_trainers")


# Collections that only the main training tower may add to: one entry is enough, and statistics are its own.
_MAIN_TOWER_ONLY = (tf.GraphKeys.UPDATE_OPS, tf.GraphKeys.SUMMARIES, MOVING_SUMMARIES)
_TRAINING_ONLY = (*_MAIN_TOWER_ONLY, tf.GraphKeys.REGULARIZATION_LOSSES)
# A copy of the model is not a second model: descriptions and regularizers of the model must find only one.
_ORIGINALS_ONLY = (
    *_MAIN_TOWER_ONLY,
    tf.GraphKeys.REGULARIZATION_LOSSES,
    tf.GraphKeys.TRAINABLE_VARIABLES,
    tf.GraphKeys.MODEL_VARIABLES,
)


@final
@attrs.frozen(eq=False)
class Tower:
    """One replica that was built.

    Attributes:
        context: its tower context.
        inputs: its input tensors, keyed by the names of the model's specs.
        output: the return value of the tower function.
        trainable_variables: the variables by which its cost can be minimised: its own, or shared ones.
        cost: the output if it is a scalar, under the name "cost"; None for another output.

    Example:
        >>> from towerpack_layers import TowerContext
        >>> with tf.Graph().as_default():
        ...     double = TowerFunc(lambda x: x * 2, [tf.TensorSpec([None], tf.float32, "x")])
        ...     tower = double.build(TowerContext("predict", is_training=False), [tf.zeros([3])])
        >>> list(tower.inputs), tower.cost
        (['x'], None)
    """

    context: TowerContext
    inputs: dict[str, tf.Tensor]
    output: Any
    graph: tf.Graph
    trainable_variables: tuple[tf.Variable, ...] = ()
    cost: tf.Tensor | None = None

    def get_tensors(self, names: Sequence[str], anywhere: bool = False) -> list[tf.Tensor]:
        """Returns tensors by their names in the model, or by the names of its inputs.

        Tensors outside of this tower may be shared by all towers: a variable, or a tensor computed only from
        variables, such as a learning rate.

        Args:
            names: names with or without ":0".
            anywhere: search the whole graph before this tower.

        Raises:
            TypeError: `names` is one string.
            TensorNotFoundError: there is no such tensor; the message lists similar names.
        """
        if isinstance(names, str):
            raise TypeError(f"Expected a list of names, received one string: {names!r}. Write [{names!r}].")
        own = f"{self.context.name}/" if self.context.name else ""
        prefixes = ["", own] if anywhere else [own]
        return [self._get_tensor(name, prefixes) for name in names]

    def _get_tensor(self, name: str, prefixes: Sequence[str]) -> tf.Tensor:
        wanted = name.removesuffix(":0")
        if wanted in self.inputs:
            return self.inputs[wanted]
        try:
            return find_tensors(self.graph, [name], prefixes)[0]
        except TensorNotFoundError:
            shared = self._find_shared(name)
            if shared is None:
                raise
            return shared

    def _find_shared(self, name: str) -> tf.Tensor | None:
        try:
            tensor = find_tensors(self.graph, [name])[0]
        except TensorNotFoundError:
            return None
        # A tensor that depends on data belongs to another tower, and is fetched with that tower's data.
        return None if sources_of([tensor]) else tensor


@final
class TowerFunc:
    """A function that adds one replica to the graph, with a record of its calls.

    Args:
        function: takes one tensor per spec; see `ModelDesc.build_graph`.
        specs: its inputs.

    Raises:
        ModelError: a spec is not a `tf.TensorSpec` with a valid and unique name, or the function takes
            another number of tensors.

    Example:
        >>> from towerpack_layers import TowerContext
        >>> with tf.Graph().as_default():
        ...     double = TowerFunc(lambda x: x * 2, [tf.TensorSpec([None], tf.float32, "x")])
        ...     tower = double.build(TowerContext("predict", is_training=False), [tf.zeros([3])])
        >>> tower.output.name, double.towers == [tower]
        ('predict/mul:0', True)
    """

    def __init__(self, function: Callable[..., Any], specs: Sequence[tf.TensorSpec]) -> None:
        self.specs = check_specs(specs)
        _check_arguments(function, self.specs)
        self._function = function
        self.towers: list[Tower] = []

    def build(self, context: TowerContext, inputs: Sequence[tf.Tensor]) -> Tower:
        """Builds one replica within `context`, and checks the rules of tower functions.

        Raises:
            TowerRuleError: the function broke a rule.
        """
        graph = tf.get_default_graph()
        dropped = _not_counted(context)
        before = set(_variable_names(graph))
        with _keep_out(graph, dropped), context:
            output = self._function(*inputs)
            is_cost = isinstance(output, tf.Tensor) and output.shape.rank == 0 and output.dtype.is_floating
            cost = name_cost(output) if is_cost else None
            trainable = _trainable_variables(context)
        new = [name for name in _variable_names(graph) if name not in before]
        _check_new_variables(context, new)
        by_name = {spec.name: tensor for spec, tensor in zip(self.specs, inputs)}
        tower = Tower(context, by_name, output, graph, trainable, cost)
        self.towers.append(tower)
        return tower

    @property
    def training(self) -> list[Tower]:
        """The training replicas, in the order of their construction."""
        return [tower for tower in self.towers if tower.context.is_training]


def check_specs(specs: Sequence[tf.TensorSpec], owner: str = "inputs() must return") -> list[tf.TensorSpec]:
    """Checks that inputs are described by specs with valid and unique names.

    Args:
        specs: the specs.
        owner: the beginning of messages.

    Raises:
        ModelError: a spec is invalid.
    """
    if not isinstance(specs, (list, tuple)):
        raise ModelError(
            f"{owner} a list of tf.TensorSpec, received {specs!r}. Give one for each component of a "
            'datapoint, in order: [tf.TensorSpec([None, 28, 28], tf.float32, "image"), ...].'
        )
    specs = list(specs)
    for spec in specs:
        if not isinstance(spec, tf.TensorSpec):
            raise ModelError(
                f"{owner} a list of tf.TensorSpec, received an element {spec!r}. "
                'Write tf.TensorSpec([None, 28, 28], tf.float32, "image").'
            )
        if not spec.name or re.search(r"[:/ ]", spec.name):
            raise ModelError(f"{owner} tf.TensorSpecs; {spec!r} needs a name without ':', '/' and spaces.")
    names = [spec.name for spec in specs]
    if len(set(names)) != len(names):
        raise ModelError(f"{owner} distinct specs: names must be distinct, received {names}.")
    return specs


def _check_arguments(function: Callable[..., Any], specs: Sequence[tf.TensorSpec]) -> None:
    if not specs:  # the function has its own inputs
        return
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):  # a builtin function has no signature
        return
    try:
        signature.bind(*specs)
    except TypeError:
        names, called = [spec.name for spec in specs], getattr(function, "__qualname__", repr(function))
        raise ModelError(
            f"{called}{signature} cannot take the {len(names)} inputs {names}. It receives one tensor for "
            "each, in this order: change its parameters, or declare other inputs."
        ) from None


def _not_counted(context: TowerContext) -> Sequence[str]:
    if not context.is_training:
        return _TRAINING_ONLY
    if context.has_own_variables:
        return _ORIGINALS_ONLY
    return () if context.is_main_training_tower else _MAIN_TOWER_ONLY


def _trainable_variables(context: TowerContext) -> tuple[tf.Variable, ...]:
    key = tf.GraphKeys.TRAINABLE_VARIABLES
    own = context.has_own_variables
    return tuple(context.get_collection_in_tower(key) if own else tf.get_collection(key))


def _variable_names(graph: tf.Graph) -> list[str]:
    return [variable.op.name for variable in graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)]


def _check_new_variables(context: TowerContext, names: Sequence[str]) -> None:
    for name in names:
        if context.has_own_variables:
            continue
        if context.reuse or (context.name and name.startswith(f"{context.name}/")):
            raise TowerRuleError(
                f"Tower {context.name!r} made its own variable {name!r}, but towers share variables. Make "
                "variables with tf.get_variable (not with tf.Variable, nor with a new Keras layer in each "
                "tower), under names that do not depend on the tower."
            )
        if re.search(r"(^|/)tower\w*/", name):
            raise TowerRuleError(
                f"Variable {name!r} is in a scope with a name that begins with 'tower'. Such scopes belong "
                "to the replicas themselves; rename yours."
            )


def name_cost(cost: tf.Tensor, prefix: str = "") -> tf.Tensor:
    """Returns a cost under the name "cost", or "training_cost" if the model has another tensor "cost".

    A model may call the cost without regularization "cost".

    Args:
        cost: a scalar.
        prefix: the beginning of both names.
    """
    names = [f"{prefix}cost", f"{prefix}training_cost"]
    if cost.op.name.rpartition("/")[2] in names:
        return cost
    graph = tf.get_default_graph()
    scope = graph.get_name_scope()
    for name in names:
        if graph.unique_name(name, mark_as_used=False) == (f"{scope}/{name}" if scope else name):
            return tf.identity(cost, name=name)
    return cost


def declare_cost(cost: tf.Tensor) -> None:
    """Adds a cost in front of the moving summaries of the current graph, unless the model has declared it."""
    declared = tf.get_collection_ref(MOVING_SUMMARIES)
    if _without_identities(cost) not in {_without_identities(scalar) for scalar in declared}:
        declared.insert(0, cost)


def _without_identities(tensor: tf.Tensor) -> str:
    while tensor.op.type == "Identity":
        tensor = tensor.op.inputs[0]
    return str(tensor.name)


def no_moving_summaries(graph: tf.Graph) -> AbstractContextManager[None]:
    """Keeps additions of an evaluation out of the summaries that each training step computes."""
    return _keep_out(graph, [MOVING_SUMMARIES])


@contextlib.contextmanager
def _keep_out(graph: tf.Graph, keys: Sequence[str]) -> Iterator[None]:
    """Removes the block's additions from some collections."""
    lengths = {key: len(graph.get_collection_ref(key)) for key in keys}
    try:
        yield
    finally:
        for key, length in lengths.items():
            del graph.get_collection_ref(key)[length:]


def compile_training_towers(function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a tower function with training towers, gradients included, that XLA compiles.

    The ops are marked; TensorFlow compiles the supported ones, separately for each device, when a step first
    runs (and again for each new shape of the input). Names, collections, summaries, statistics and ops that
    XLA does not support are unchanged. Evaluation towers are not compiled.

    Initial values of variables are the same as without XLA. Random numbers drawn in the tower, such as
    dropout masks, differ from those without XLA, but are the same in each run with the same seed.

    Args:
        function: a tower function, such as `ModelDesc.build_graph`.

    Raises:
        ConfigError: this TensorFlow was built without XLA.
    """
    if not tf.test.is_built_with_xla():
        raise ConfigError("xla=True: this TensorFlow was built without XLA. Remove xla=True.")

    @functools.wraps(function)
    def build(*inputs: tf.Tensor) -> Any:
        context = get_current_tower_context()
        if context is None or not context.is_training:
            return function(*inputs)
        with tf.variable_creator_scope(_create_uncompiled), tf.xla.experimental.jit_scope():
            return function(*inputs)

    return build


def _create_uncompiled(next_creator: Callable[..., tf.Variable], **arguments: Any) -> tf.Variable:
    """Makes a variable without compiling its initializer: it runs once, and XLA would draw other numbers."""
    with tf.xla.experimental.jit_scope(compile_ops=False):
        return next_creator(**arguments)


def remove_xla_marks(ops: Iterable[tf.Operation]) -> None:
    """Removes the marks of `compile_training_towers` from ops, so that XLA does not compile them."""
    for op in ops:
        if "_XlaCompile" in op.node_def.attr:
            op._clear_attr("_XlaCompile")


def leave_fusion_to_xla(config: tf.ConfigProto) -> None:
    """Keeps TensorFlow from fusing ops itself, in sessions that run compiled towers.

    The ops that its remapper fuses, such as a product with its bias, lose the mark for compilation.
    Trainers with `TrainConfig(xla=True)` and without `session_config` call this.

    Args:
        config: the session's options, which are changed.
    """
    rewrites = config.graph_options.rewrite_options
    rewrites.remapping = rewrites.OFF
