"""Maps a name of Tensorpack to an object with Tensorpack's behaviour."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, final

from ._errors import InstallError, NoCounterpartError, page
from .names import call_rules, counterparts, own_names

__all__ = ["Gone", "resolve"]


def __getattr__(name: str) -> Any:
    """Returns an adapted class, for pickle."""
    if name not in call_rules():
        raise AttributeError(name)
    return resolve(name)


@functools.cache
def resolve(name: str) -> Any:
    """Returns the object for a public name of Tensorpack.

    Args:
        name: the name without the module.

    Raises:
        KeyError: Tensorpack has no such name.
        InstallError: the object needs a package that is not installed.
    """
    if name in own_names():
        return getattr(_imported(f"towerpack_compat.{own_names()[name]}", name), name)
    place = counterparts()[name]
    if place.startswith("#"):
        return Gone(name, place)
    module, _, attribute = place.partition(":")
    if module == "towerpack_inputsource":
        _imported("towerpack_compat.tensorpack.input_source", name)  # adds Tensorpack's methods
    target = getattr(_imported(module, name), attribute)
    rule = _rule(name)
    return target if rule is None else _adapted(name, target, rule)


def _imported(module: str, name: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] in _FULL:
            raise InstallError(
                f"tensorpack's {name} needs {error.name}, which is not installed. "
                'Run `pip install "towerpack-compat[full]"`.',
                name=error.name,
            ) from error
        raise


_FULL = {"tensorflow", "tf_keras"}
_FULL |= {f"towerpack_{wheel}" for wheel in ("callbacks", "inputsource", "layers", "trainers")}


def _rule(name: str) -> Mapping[str, Any] | None:
    rule = call_rules().get(name)
    while rule is not None and "like" in rule:
        rule = call_rules()[rule["like"]]
    return rule


def _adapted(name: str, target: Any, rule: Mapping[str, Any]) -> Any:
    translate = functools.partial(_translated, name, rule)
    if not inspect.isclass(target):

        @functools.wraps(target)
        def call(*args: Any, **kwargs: Any) -> Any:
            args, kwargs = translate(args, kwargs)
            return target(*args, **kwargs)

        return call

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        args, kwargs = translate(args, kwargs)
        target.__init__(self, *args, **kwargs)

    body = {"__init__": __init__, "__module__": __name__, "__qualname__": name, "__doc__": target.__doc__}
    return type(target)(name, (target,), body)


def _translated(
    name: str, rule: Mapping[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Converts the arguments of a call of Tensorpack to those of Towerpack."""
    old = rule.get("old")
    if old is not None:
        if len(args) > len(old):
            raise TypeError(f"{name} takes {len(old)} arguments by position, received {len(args)}.")
        kwargs = {**dict(zip(old, args)), **kwargs}
        args = ()
    for argument, section in rule.get("hand", {}).items():
        if kwargs.pop(argument, None) is not None:
            raise NoCounterpartError(
                f"{name}({argument}=...) has no counterpart. Leave it out, and read {page(section)}."
            )
    for argument in rule.get("drop", ()):
        kwargs.pop(argument, None)
    renamed = {rule.get("rename", {}).get(key, key): value for key, value in kwargs.items()}
    added = {key: ast.literal_eval(text) for key, text in rule.get("add", {}).items()}
    return args, {**added, **renamed}


@final
class Gone:
    """Placeholder for a name without a counterpart; each use raises `NoCounterpartError`."""

    def __init__(self, name: str, section: str) -> None:
        self._name, self._section = name, section

    def _refuse(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise NoCounterpartError(
            f"tensorpack's {self._name} has no counterpart. Read {page(self._section)} for the replacement."
        )

    __call__: Callable[..., NoReturn] = _refuse
    __enter__ = _refuse
    __mro_entries__ = _refuse

    def __exit__(self, *_error: object) -> None: ...

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        self._refuse()
