"""The tower context: the properties of one replica of a model; and data stored per graph."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self, final

import attrs
import tensorflow.compat.v1 as tf

from .._errors import GraphRequiredError, SharedVariableError, TowerError, TowerNameError
from ._keras_in_towers import (
    adapts_keras,
    check_learning_phase,
    check_no_lost_updates,
    create_no_lost_state,
    uses_of_learning_phase,
)

__all__ = [
    "GraphNotes",
    "TowerContext",
    "explain_missing",
    "get_current_tower_context",
    "graph_notes",
    "in_nested_graph",
    "outermost_graph",
    "place_of_body",
    "resolve_training",
    "shared_by_towers",
]


@final
@attrs.define(eq=False)
class GraphNotes:
    """The data of one graph.

    Args:
        scopes: the kind of layer by full variable-scope name, for layers built without reuse.
        failed: the variables created by failed layer calls, by graph and name scope.
        logged: keys of the lines logged so far.
        costs_of_towers: names of the regularization losses added in towers that have been left.
        shared: the names of tensors used by several towers, by purpose and place.
        moved: the name of the last op that moves a moving average, by place. An op itself would keep the
            graph alive.
        name_scopes: the full names of reopened name scopes, by graph and name.
        shared_calls: functions with shared variables, each with the variable scopes of its calls.
        scoped_calls: the default arguments of layer calls, by label; as text, for the same reason.
    """

    scopes: dict[str, str] = attrs.field(factory=dict)
    failed: dict[tuple[str, str], tuple[str, ...]] = attrs.field(factory=dict)
    logged: set[tuple[str, str]] = attrs.field(factory=set)
    costs_of_towers: set[str] = attrs.field(factory=set)
    shared: dict[tuple[str, ...], list[str]] = attrs.field(factory=dict)
    moved: dict[tuple[str, ...], str] = attrs.field(factory=dict)
    name_scopes: dict[tuple[str, str], str] = attrs.field(factory=dict)
    shared_calls: set[tuple[object, str]] = attrs.field(factory=set)
    scoped_calls: dict[str, Any] = attrs.field(factory=dict)

    def first_time(self, topic: str, key: str) -> bool:
        """Returns whether this is the first call for `topic` and `key`."""
        before = len(self.logged)
        self.logged.add((topic, key))
        return len(self.logged) > before


@final
class _Notebook:
    """The data of all live graphs."""

    def __init__(self) -> None:
        self._notes: weakref.WeakKeyDictionary[tf.Graph, GraphNotes] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    def of(self, graph: tf.Graph) -> GraphNotes:
        with self._lock:
            return self._notes.setdefault(graph, GraphNotes())


_notebook = _Notebook()


def in_nested_graph() -> bool:
    """Returns whether ops are being added to the body of a `tf.cond`, `tf.while_loop` or `tf.function`."""
    return getattr(tf.get_default_graph(), "outer_graph", None) is not None


def outermost_graph() -> tf.Graph:
    """Returns the graph under construction; in a body of control flow, the graph around all bodies."""
    graph = tf.get_default_graph()
    while getattr(graph, "outer_graph", None) is not None:
        graph = graph.outer_graph
    return graph


def graph_notes() -> GraphNotes:
    """Returns the data of the graph under construction; a control flow body uses those of its outer graph."""
    return _notebook.of(outermost_graph())


def shared_by_towers(purpose: str, make: Callable[[], Sequence[tf.Tensor]]) -> list[tf.Tensor]:
    """Returns tensors that are computed once per step, for all towers and layers that request them.

    So a value that each step reads and then changes is read once, before the change. In a body of control
    flow, the tensors belong to this body.

    Args:
        purpose: a key of the tensors with the name of their variable; towers with separate variables have
            separate tensors.
        make: creates the tensors at the first request.

    Returns:
        The tensors that `make` returned for this purpose in this place, now or earlier.
    """
    graph, made = tf.get_default_graph(), graph_notes().shared
    key = (purpose, *place_of_body())
    if key not in made:
        made[key] = [tensor.name for tensor in make()]
    return [graph.get_tensor_by_name(name) for name in made[key]]


def place_of_body() -> tuple[str, str]:
    """Returns the names of the current control flow body, within which ops can wait for each other."""
    graph = tf.get_default_graph()
    context = graph._get_control_flow_context()
    return getattr(graph, "name", ""), "" if context is None else context.name


def _check_index(instance: TowerContext, _attribute: attrs.Attribute[int], value: int) -> None:
    if not 0 <= value < instance.num_towers:
        raise ValueError(
            f"TowerContext(index={value}, num_towers={instance.num_towers}): expected 0 <= index < "
            f"num_towers."
        )


def _check_scope(_instance: TowerContext, attribute: attrs.Attribute[str], value: str) -> None:
    if value.startswith("/") or value.endswith("/"):
        raise ValueError(
            f"TowerContext({attribute.name}={value!r}): give the scope without leading or trailing '/'."
        )


@final
@attrs.frozen(eq=False)
class TowerContext:
    """One replica ("tower") of a model; also the context manager in which its layers are built.

    A model is replicated by entering one context per replica. Inside it, layers read
    `get_current_tower_context()` to find out whether they train; they have no other outside dependencies. The
    current context is stored per thread, like TensorFlow's stacks of graphs and name scopes. Contexts do not
    nest.

    Args:
        name: name scope opened on entry, which must be unused; it is at the root of the graph even inside
            other scopes. `""` for the tower of a model without replicas: its names have no prefix.
        is_training: whether the tower is for training: layers then use batch statistics, dropout masks and so
            on.
        index: 0-based position among the towers of its kind.
        num_towers: number of towers of its kind.
        variable_scope: variable scope opened on entry. With a non-empty one, the tower has separate
            variables.
        reuse: `True` to take every variable from an earlier tower (for inference towers, and for all but
            the first of towers that share their variables); a missing one is then a
            `SharedVariableError`. `None` to inherit from the enclosing variable scope.
        random_seed: with `step`, makes random layers draw the same numbers at the same step of every run.
        step: scalar integer tensor, the number of steps finished so far.
        cross_tower_sum: for layers that need the whole batch of a step, such as batch normalisation with
            `sync_statistics`: maps a tensor to its sum over all towers, each of which must call it at the
            same place of the model. The gradient by each tower's tensor is the sum of the gradients by the
            results. `None` for a single tower, or if the towers are not connected.

    Raises:
        ValueError: the `index` is outside `num_towers`, or a scope starts or ends with `/`.
        TypeError: a name is not a str, or `is_training` is not a bool.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import FullyConnected, TowerContext
        >>> with tf.Graph().as_default():
        ...     x = tf.ones([2, 3])
        ...     with TowerContext("", is_training=True):
        ...         FullyConnected("fc", x, 4).name
        ...     with TowerContext("InferenceTower", is_training=False, reuse=True):
        ...         FullyConnected("fc", x, 4).name
        ...     [v.name for v in tf.trainable_variables()]
        'fc/output:0'
        'InferenceTower/fc/output:0'
        ['fc/W:0', 'fc/b:0']
    """

    name: str = attrs.field(validator=[attrs.validators.instance_of(str), _check_scope])
    is_training: bool = attrs.field(validator=attrs.validators.instance_of(bool))
    num_towers: int = attrs.field(default=1, kw_only=True)
    index: int = attrs.field(default=0, kw_only=True, validator=_check_index)
    variable_scope: str = attrs.field(
        default="", kw_only=True, validator=[attrs.validators.instance_of(str), _check_scope]
    )
    reuse: bool | None = attrs.field(default=None, kw_only=True)
    random_seed: int | None = attrs.field(default=None, kw_only=True)
    step: tf.Tensor | None = attrs.field(default=None, kw_only=True)
    cross_tower_sum: Callable[[tf.Tensor], tf.Tensor] | None = attrs.field(default=None, kw_only=True)

    @property
    def is_main_training_tower(self) -> bool:
        """Whether this is the first training tower, which provides statistics and summaries."""
        return self.is_training and self.index == 0

    @property
    def has_own_variables(self) -> bool:
        """Whether the tower has a separate scope of variables instead of shared ones."""
        return self.variable_scope != ""

    def _missing(self, name: str) -> str:
        return (
            f"Tower {self.name!r} shares the variables of an earlier tower, but no earlier tower has "
            f"created {name!r}. Every tower must request the same variables, by tf.get_variable, under "
            "names that do not "
            f"depend on the name scope, on is_training or on how often the function was called."
        )

    def get_collection_in_tower(self, key: str) -> list[Any]:
        """Returns the items added to a graph collection since this tower was entered.

        Args:
            key: name of the collection, such as `tf.GraphKeys.TRAINABLE_VARIABLES`.

        Raises:
            TowerError: the tower is not the one currently entered.
        """
        entered = _current.entered
        if entered is None or entered.context is not self:
            raise TowerError(
                f"Tower {self.name!r} is not entered: call get_collection_in_tower({key!r}) inside its "
                f"`with` block."
            )
        before = entered.collections.get(key, frozenset())
        return [item for item in tf.get_collection(key) if id(item) not in before]

    def __enter__(self) -> Self:
        """Opens the tower's scopes and makes it the current tower of this thread."""
        self._check_can_enter()
        with contextlib.ExitStack() as scopes:
            scopes.enter_context(self._open_variable_scope())
            if self.name:
                scopes.enter_context(tf.name_scope(None))
                scopes.enter_context(tf.name_scope(self.name))
            if self.is_training:
                scopes.enter_context(tf.variable_creator_scope(create_no_lost_state))
            _current.entered = _Entered(
                self,
                scopes.pop_all(),
                _snapshot(tf.get_default_graph()),
                uses_of_learning_phase(outermost_graph()),
                len(tf.get_default_graph().get_operations()) if self.is_training else 0,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes the scopes opened on entry.

        Raises:
            KerasLayerError: a Keras layer would not train: a layer of tf_keras uses the learning phase, or
                ops that no step runs would change a state.
        """
        # The builder of the tower may remove additions later, so they are recorded now.
        added = self.get_collection_in_tower(tf.GraphKeys.REGULARIZATION_LOSSES)
        graph_notes().costs_of_towers.update(getattr(cost, "name", "") for cost in added)
        entered, _current.entered = _current.entered, None
        assert entered is not None and entered.context is self
        entered.scopes.__exit__(kind, error, trace)
        if kind is None and self.is_training and not adapts_keras():
            check_learning_phase(
                self.name, uses_of_learning_phase(outermost_graph()) - entered.learning_phases
            )
            check_no_lost_updates(self.name, tf.get_default_graph(), entered.ops)

    def _check_can_enter(self) -> None:
        if _current.entered is not None:
            raise TowerError(
                f"Cannot enter tower {self.name!r} inside tower {_current.entered.context.name!r}: towers do "
                f"not nest. Leave the first before entering the second."
            )
        if tf.executing_eagerly():
            raise GraphRequiredError(
                f"Tower {self.name!r} was entered in eager mode. Enter it inside "
                f"`with tf.Graph().as_default():`."
            )
        if self.name and not _is_free(self.name):
            raise TowerNameError(
                f"Cannot enter tower {self.name!r}: the name scope {self.name + '/'!r} is already used in "
                "this graph (a tower can be entered only once). Give the new tower another name, for "
                "example with tower_name= of a second InferenceRunner."
            )

    def _open_variable_scope(self) -> contextlib.AbstractContextManager[Any]:
        # Without the auxiliary name scope: the tower's name scope is absolute and opened separately.
        scope: contextlib.AbstractContextManager[Any] = tf.variable_scope(
            self.variable_scope or tf.get_variable_scope(),
            reuse=self.reuse,
            custom_getter=explain_missing(self._missing) if self.reuse else None,
            auxiliary_name_scope=False,
        )
        return scope


@final
class _Entered(NamedTuple):
    """An entered tower: its context, its open scopes, and the state of the graph at its entry."""

    context: TowerContext
    scopes: contextlib.ExitStack
    collections: dict[str, frozenset[int]]
    learning_phases: int
    ops: int


@final
class _CurrentTower(threading.local):
    """The entered tower of each thread."""

    entered: _Entered | None = None


_current = _CurrentTower()


def get_current_tower_context() -> TowerContext | None:
    """Returns the tower that this thread is building, or `None` outside of towers.

    Example:
        >>> from towerpack_layers import get_current_tower_context
        >>> get_current_tower_context() is None
        True
    """
    return None if _current.entered is None else _current.entered.context


def resolve_training(layer: str, training: bool | None) -> bool:
    """Returns whether a layer is built for training, from its argument or the current tower.

    Args:
        layer: the layer's label, for errors.
        training: the layer's argument; `None` for the tower's `is_training`.

    Raises:
        TowerError: the argument is `None`, and no tower is entered.
        TypeError: `training` is neither a Python bool nor `None`.
    """
    if isinstance(training, bool):
        return training
    if training is not None:
        raise TypeError(
            f"{layer}: training must be True, False or None, received {training!r}. A tower is built for "
            "one mode: build a second tower, with reuse=True, for the other."
        )
    tower = get_current_tower_context()
    if tower is None:
        raise TowerError(
            f"{layer} needs a training mode. Pass training=True or training=False, or build it inside "
            f'`with TowerContext("", is_training=...):`.'
        )
    return tower.is_training


def _is_free(name: str) -> bool:
    with tf.name_scope(None):
        return bool(tf.get_default_graph().unique_name(name, mark_as_used=False) == name)


def _snapshot(graph: tf.Graph) -> dict[str, frozenset[int]]:
    return {key: frozenset(map(id, graph.get_collection_ref(key))) for key in graph.get_all_collection_keys()}


def explain_missing(message: Callable[[str], str]) -> Callable[..., Any]:
    """Returns a variable getter with an explanation in the error for a missing variable.

    Args:
        message: maps the name of a variable to the text of a `SharedVariableError`.
    """

    def explain(getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        try:
            return getter(name, *args, **kwargs)
        except ValueError as error:
            if "does not exist" not in str(error):
                raise
            raise SharedVariableError(message(name)) from error

    return explain
