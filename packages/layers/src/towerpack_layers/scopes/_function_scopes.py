"""Decorators that open a scope for each call of a function, and name scopes that can be reopened."""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar, overload

import tensorflow.compat.v1 as tf

from .._errors import ScopeError
from ..registry._layer_scope import check_graph_mode
from ..tower._tower_context import explain_missing, graph_notes

__all__ = ["auto_reuse_variable_scope", "cached_name_scope", "under_name_scope", "under_variable_scope"]

_log = logging.getLogger("towerpack_layers")


P = ParamSpec("P")
R = TypeVar("R")


def auto_reuse_variable_scope(function: Callable[P, R]) -> Callable[P, R]:
    """Makes all calls of a function in one variable scope share their variables.

    The first call in a variable scope of a graph creates the variables, or reuses them if the enclosing scope
    does; each later call reuses them. No scope is opened, so names follow from the enclosing scopes. A failed
    call does not count.

    Args:
        function: a function that builds a part of a model, such as a GAN's discriminator.

    Raises:
        ScopeError: `function` is not a function, or is a generator or a coroutine.
        SharedVariableError: a later call requests a variable that the first one did not create.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import FullyConnected, auto_reuse_variable_scope
        >>> @auto_reuse_variable_scope
        ... def discriminator(x):
        ...     return FullyConnected("fc", x, 1)
        >>> with tf.Graph().as_default(), tf.variable_scope("discrim"):
        ...     real, fake = discriminator(tf.ones([2, 3])), discriminator(tf.zeros([2, 3]))
        ...     [v.name for v in tf.trainable_variables()]
        ['discrim/fc/W:0', 'discrim/fc/b:0']
    """
    name = _check_function("auto_reuse_variable_scope", function)
    identity = object()

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        check_graph_mode(name)
        scope, shared = tf.get_variable_scope(), graph_notes().shared_calls
        place = (identity, scope.name)
        if place in shared:
            getter = explain_missing(functools.partial(_missing, name, scope.name))
            with tf.variable_scope(scope, reuse=True, custom_getter=getter, auxiliary_name_scope=False):
                return function(*args, **kwargs)
        # Recorded before the call, for recursive functions.
        shared.add(place)
        try:
            return function(*args, **kwargs)
        except BaseException:
            shared.discard(place)
            raise

    return call


@overload
def under_name_scope(name_scope: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def under_name_scope(name_scope: str | None = ...) -> Callable[[Callable[..., R]], Callable[..., R]]: ...
def under_name_scope(name_scope: Any = None) -> Any:
    """Makes a function add its ops in a separate name scope.

    Callers may also pass `name_scope=`, which sets the scope and is not passed to the function. If that name
    is already used, the scope gets TensorFlow's suffix, and a warning is logged. A name with a trailing slash
    reopens an existing scope.

    Use it as `@under_name_scope` or as `@under_name_scope("name")`.

    Args:
        name_scope: the scope's name; the function's name by default.

    Raises:
        ScopeError: `name_scope` is not a name, or the decorated object is not a function.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import under_name_scope
        >>> @under_name_scope()
        ... def double(x):
        ...     return tf.multiply(x, 2, name="out")
        >>> with tf.Graph().as_default():
        ...     double(tf.ones([])).name, double(tf.ones([]), name_scope="twice").name
        ('double/out:0', 'twice/out:0')
    """
    if callable(name_scope):
        return under_name_scope()(name_scope)
    _check_name("under_name_scope", name_scope)

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        own_name = _check_function("under_name_scope", function)
        name = name_scope or own_name

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> R:
            given = kwargs.pop("name_scope", None)
            _check_name(name, given)
            around = tf.get_default_graph().get_name_scope()
            with tf.name_scope(given or name) as opened:
                if given is not None and not given.endswith("/"):
                    _report_taken(name, f"{around}/{given}/" if around else f"{given}/", str(opened))
                return function(*args, **kwargs)

        return call

    return decorate


@overload
def under_variable_scope(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def under_variable_scope() -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def under_variable_scope(function: Any = None, /) -> Any:
    """Makes a function create its variables in a variable scope with the function's name.

    A second call of the function in the same scope requests the same variables, which is an error unless
    variables are reused. Use it as `@under_variable_scope` or as `@under_variable_scope()`.

    Raises:
        ScopeError: the decorated object is not a function.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import FullyConnected, under_variable_scope
        >>> @under_variable_scope()
        ... def encoder(x):
        ...     return FullyConnected("fc", x, 3)
        >>> with tf.Graph().as_default():
        ...     encoder(tf.ones([1, 2])).variables.W.name
        'encoder/fc/W:0'
    """
    if function is None:
        return under_variable_scope
    name = _check_function("under_variable_scope", function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        check_graph_mode(name)
        with tf.variable_scope(name):
            return function(*args, **kwargs)

    return call


def _check_function(decorator: str, function: Any) -> str:
    """Checks that a scope can stay open during the whole function, and returns the function's name."""
    name = getattr(function, "__name__", None)
    if not callable(function) or isinstance(function, type) or not isinstance(name, str):
        raise ScopeError(f"{decorator} needs a function, received {function!r}.")
    kinds = (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    if any(is_kind(function) for is_kind in kinds):
        raise ScopeError(
            f"{decorator}: {name} is a generator or a coroutine, which would run outside of the scope. "
            "Return a tensor or a list of tensors."
        )
    return name


def _check_name(call: str, name: object) -> None:
    if name is not None and not (isinstance(name, str) and name.strip("/")):
        raise ScopeError(f"{call}: name_scope must be a name, received {name!r}.")


def _report_taken(call: str, wanted: str, opened: str) -> None:
    if opened != wanted:
        _log.warning("%s: the name scope %r is already used; using %r instead", call, wanted, opened)


def _missing(call: str, scope: str, name: str) -> str:
    return (
        f"{call}: a call shares the variables of the first call in the variable scope {scope!r}, which did "
        f"not create {name!r}. Every call must request the same variables; for separate variables, put each "
        "call into a different tf.variable_scope."
    )


@contextlib.contextmanager
def cached_name_scope(name: str, top_level: bool = True) -> Iterator[str]:
    """Opens a name scope, or reopens an existing one, without a suffix such as `_1`.

    Each graph has separate scopes. Inside a body of `tf.cond` or `tf.while_loop`, the scope belongs to the
    body.

    Args:
        name: the scope.
        top_level: whether the scope is at the root of the graph, even inside of other scopes (and of a
            tower). Otherwise it is within the enclosing scope.

    Yields:
        The full name of the scope, with a trailing slash.

    Raises:
        ScopeError: `name` is not a name.
        GraphRequiredError: TensorFlow executes eagerly.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import cached_name_scope
        >>> with tf.Graph().as_default():
        ...     for k in range(2):
        ...         with tf.name_scope("layer"), cached_name_scope("statistics"):
        ...             print(tf.constant(k, name="value").name)
        statistics/value:0
        statistics/value_1:0
    """
    if not isinstance(name, str) or not name.strip("/"):
        raise ScopeError(f"cached_name_scope: name must be a name, received {name!r}.")
    check_graph_mode(f"cached_name_scope({name!r})")
    graph, scopes = tf.get_default_graph(), graph_notes().name_scopes
    around = "" if top_level else graph.get_name_scope()
    wanted = "/".join(filter(None, (around, name.strip("/"))))
    place = getattr(graph, "name", ""), wanted
    if place not in scopes:
        with tf.name_scope(None), tf.name_scope(wanted) as opened:
            scopes[place] = str(opened)
    with tf.name_scope(scopes[place]):
        yield scopes[place]
