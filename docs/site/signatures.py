"""Makes signatures of the API pages readable: types as in the code, linked, and defaults of attrs classes."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import inventories

__all__ = ["as_written", "full_name", "show_defaults_of_attrs"]


class _Text:
    """A default value that is displayed as a text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def show_defaults_of_attrs(exported: Mapping[str, frozenset[str]]) -> None:
    """Gives attrs classes a signature with the defaults of their attributes.

    Sphinx reads defaults from the source of `__init__`, which attrs generates.

    Args:
        exported: the public names of each package.
    """
    for package, names in exported.items():
        for name in names:
            described = getattr(importlib.import_module(package), name)
            if inspect.isclass(described) and "__attrs_attrs__" in vars(described):
                described.__signature__ = _signature(described)


def _signature(described: type) -> inspect.Signature:
    fields = {field.alias: field for field in attrs.fields(described)}
    signature = inspect.signature(described)
    parameters = []
    for parameter in signature.parameters.values():
        field = fields[parameter.name]
        if isinstance(field.default, attrs.Factory):
            parameter = parameter.replace(default=_Text(_made(field.default.factory)))
        if parameter.annotation in {Any, "Any", parameter.empty} and field.type:
            parameter = parameter.replace(annotation=field.type)  # a converter hides it
        parameters.append(parameter)
    return signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty)


def _made(factory: Callable[[], object]) -> str:
    """Returns a default that a function makes, or `...` if it depends on the process."""
    if factory in {list, dict, tuple, set}:
        return repr(factory())
    return "..." if factory.__name__.startswith(("_", "<")) else f"{factory.__name__}()"


def as_written(
    app: Any, kind: str, name: str, described: Any, options: Any, arguments: str | None, returns: str | None
) -> tuple[str, str | None] | None:
    """Returns a signature with the types as in the code; Sphinx expands aliases such as `npt.ArrayLike`."""
    from sphinx.util.inspect import stringify_signature  # tests read conf.py where there is no Sphinx

    if arguments is None or not callable(described):
        return None
    try:
        signature = inspect.signature(described)
    except (TypeError, ValueError):  # built-in, or imported in name only
        return None
    parameters = list(signature.parameters.values())
    if kind == "method" and parameters and parameters[0].name in {"self", "cls"}:
        parameters = parameters[1:]
    result = signature.return_annotation
    written = stringify_signature(signature.replace(parameters=parameters), show_return_annotation=False)
    return written, str(result) if isinstance(result, str) and kind != "class" else None


def full_name(exported: Mapping[str, frozenset[str]]) -> Callable[..., Any]:
    """Returns a handler that finds a type by its short name, or by its private module.

    Args:
        exported: the public names of each package.
    """
    ours = {name: f"{package}.{name}" for package, names in exported.items() for name in names}
    python = inventories.read(inventories.FOLDER / "python.txt").names
    theirs = {name.rpartition(".")[2]: name for name in python}

    def resolve(app: Any, env: Any, node: Any, content: Any) -> Any:
        target = node.get("reftarget", "")
        package, _, name = target.rpartition(".")
        if node.get("refdomain") != "py" or not (package == "" or package.startswith("towerpack_")):
            return None
        if name in ours and target != ours[name]:
            domain = env.get_domain("py")
            return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", ours[name], node, content)
        if not package:
            node["reftarget"] = theirs.get(name, name)
        return None

    return resolve
