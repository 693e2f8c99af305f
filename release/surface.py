"""Reads the public names of the wheels from their sources, with kinds, arguments and base classes.

A surface is a dictionary with one line of text for each public name, such as

    "towerpack_layers.argscope": "function (layers, **kwargs)"
    "towerpack_layers.LinearWrap": "class (tensor)"
    "towerpack_layers.LinearWrap.apply": "method (func, *args, **kwargs)"
    "towerpack_layers.NameError": "class (...) <- towerpack_layers.LayersError, ValueError"
    "towerpack_layers.Deconv2D": "same as towerpack_layers.Conv2DTranspose"

Members that a class has from a public class are listed there alone. `hook` is a method with an underscore
that subclasses override. Nothing is imported: the sources are parsed by griffe.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import griffe

from .wheels import PUBLIC_MODULES, ROOT, WHEELS, package_of

__all__ = ["Surface", "read_surfaces"]

Surface = dict[str, str]
_MAKE_FIELDS = ("attrs.define", "attrs.frozen", "dataclasses.dataclass")
_WITHOUT_ARGUMENTS = {"abc.ABC", "typing.Generic", "typing.Protocol"}
# The methods that pages tell users to override, although their names have an underscore.
_HOOKS = frozenset(
    {
        "_after_epoch",
        "_after_inference",
        "_after_run",
        "_after_train",
        "_after_triggers",
        "_augment",
        "_before_epoch",
        "_before_inference",
        "_before_run",
        "_before_train",
        "_get_augment_params",
        "_get_fetches",
        "_get_input_tensors",
        "_hooks",
        "_on_fetches",
        "_process",
        "_reset_state",
        "_setup",
        "_setup_graph",
        "_state",
        "_trigger",
        "_trigger_epoch",
        "_trigger_step",
    }
)


def read_surfaces(root: Path = ROOT) -> dict[str, Surface]:
    """Returns the surface of each wheel under a root."""
    folders = [root / "packages" / wheel / "src" for wheel in WHEELS]
    loader = griffe.GriffeLoader(search_paths=folders, allow_inspection=False)
    for wheel, folder in zip(WHEELS, folders):
        if folder.is_dir():
            loader.load(package_of(wheel))
    loader.resolve_aliases(implicit=False, external=False)
    modules = {
        wheel: [module for path in _public_paths(wheel) if (module := _found(loader, path)) is not None]
        for wheel in WHEELS
    }
    known = _names_of(module for each in modules.values() for module in each)
    return {wheel: _surface(each, known) for wheel, each in modules.items()}


def _public_paths(wheel: str) -> Iterator[str]:
    yield package_of(wheel)
    yield from (f"{package_of(wheel)}.{name}" for name in PUBLIC_MODULES[wheel])


def _found(loader: griffe.GriffeLoader, path: str) -> griffe.Module | None:
    try:
        module: griffe.Module = loader.modules_collection[path]
    except KeyError:
        return None
    return module


def _exports(module: griffe.Module) -> list[str]:
    """The names in a module's `__all__`; of one without, those that it defines without an underscore."""
    if module.exports is not None:
        return sorted(str(name) for name in module.exports)
    defined = (
        name for name, member in module.members.items() if not member.is_alias and not member.is_module
    )
    return sorted(name for name in defined if not name.startswith("_"))


def _names_of(modules: Iterable[griffe.Module]) -> dict[str, str]:
    """For each public object, by the place of its definition, the shortest name that it is exported by."""
    known: dict[str, str] = {}
    for module in sorted(modules, key=lambda each: (each.path.count("."), each.path)):
        for name in _exports(module):
            if name in module.members:
                known.setdefault(_target(module.members[name]).path, f"{module.path}.{name}")
    return known


def _target(thing: griffe.Object | griffe.Alias) -> griffe.Object:
    return thing.final_target if isinstance(thing, griffe.Alias) else thing


def _surface(modules: list[griffe.Module], known: dict[str, str]) -> Surface:
    lines: Surface = {}
    for module in modules:
        for name in _exports(module):
            public = f"{module.path}.{name}"
            thing = _target(module.members[name]) if name in module.members else None
            if thing is not None and known[thing.path] != public:
                lines[public] = f"same as {known[thing.path]}"
            elif isinstance(thing, griffe.Class):
                lines.update(_class_lines(public, thing, known))
            else:
                lines[public] = "attribute" if thing is None else _line(thing)
    return dict(sorted(lines.items()))


def _class_lines(public: str, thing: griffe.Class, known: dict[str, str]) -> Iterator[tuple[str, str]]:
    family = list(_family(thing, known))
    bases = list(dict.fromkeys(base for each in family for base in _bases(each, known)))
    heritage = f" <- {', '.join(bases)}" if bases else ""
    yield public, f"class {_constructor(thing)}{heritage}"
    open_to_subclasses = not _is_final(thing)
    members = {name: member for each in reversed(family) for name, member in each.members.items()}
    for name, member in members.items():
        described = _target(member)
        if isinstance(described, (griffe.Module, griffe.Class)):
            continue
        if not name.startswith("_"):
            yield f"{public}.{name}", _line(described)
        elif open_to_subclasses and _is_hook(described):
            yield f"{public}.{name}", _line(described).replace("method", "hook", 1)


def _family(thing: griffe.Class, known: dict[str, str]) -> Iterator[griffe.Class]:
    """A class and its private bases, which contribute to its members."""
    yield thing
    for base in _resolved(thing):
        if isinstance(base, griffe.Class) and base.path not in known:
            yield from _family(base, known)


def _bases(thing: griffe.Class, known: dict[str, str]) -> Iterator[str]:
    """The public bases and those of other packages."""
    for base in _resolved(thing):
        if isinstance(base, griffe.Class):
            if base.path in known:
                yield known[base.path]
        elif base not in _WITHOUT_ARGUMENTS:
            yield base


def _resolved(thing: griffe.Class) -> Iterator[griffe.Class | str]:
    for base in thing.bases:
        expression = getattr(base, "left", base) if getattr(base, "slice", None) is not None else base
        path = expression if isinstance(expression, str) else expression.canonical_path
        found: griffe.Object | str
        try:
            found = _target(thing.modules_collection[path])
        except (KeyError, griffe.AliasResolutionError):
            found = path
        yield found if isinstance(found, (griffe.Class, str)) else path


def _constructor(thing: griffe.Class) -> str:
    """The constructor's arguments; `(...)` if a class of another package defines them."""
    order = [thing, *_ancestors(thing)]
    for each in order:
        written = each.members.get("__init__")
        if isinstance(written, griffe.Function):
            return _arguments(written, bound=True)
        if _has_fields(each):
            return _arguments_of_fields(each)
    bases = {base for each in order for base in _resolved(each) if isinstance(base, str)}
    return "(...)" if bases - _WITHOUT_ARGUMENTS else "()"


def _ancestors(thing: griffe.Class) -> Iterator[griffe.Class]:
    for base in _resolved(thing):
        if isinstance(base, griffe.Class):
            yield base
            yield from _ancestors(base)


def _has_fields(thing: griffe.Class) -> bool:
    return _decorated(thing, *_MAKE_FIELDS) or "typing.NamedTuple" in _resolved(thing)


def _arguments_of_fields(thing: griffe.Class) -> str:
    """The arguments that are made of the fields of a class and of its bases."""
    fields: dict[str, tuple[str, bool]] = {}
    for each in reversed([thing, *_ancestors(thing)]):
        if _has_fields(each):
            all_by_name = "kw_only=True" in "".join(str(item.value) for item in each.decorators)
            fields.update(_fields(each, all_by_name))
    by_place = [text for text, by_name in fields.values() if not by_name]
    by_name = [text for text, by_name in fields.values() if by_name]
    return f"({', '.join([*by_place, *(['*'] if by_name else []), *by_name])})"


def _fields(thing: griffe.Class, all_by_name: bool) -> Iterator[tuple[str, tuple[str, bool]]]:
    for name, member in thing.members.items():
        if not isinstance(member, griffe.Attribute) or "property" in member.labels:
            continue
        value = "" if member.value is None else str(member.value)
        is_one = member.annotation is not None and not str(member.annotation).startswith("ClassVar")
        if not is_one or "init=False" in value:
            continue
        is_field = value.startswith("attrs.field(")
        has_default = bool(value) and (not is_field or "default=" in value or "factory=" in value)
        default = "..." if is_field else value
        yield (
            name,
            (
                f"{name.lstrip('_')}={default}" if has_default else name.lstrip("_"),
                all_by_name or "kw_only=True" in value,
            ),
        )


def _decorated(thing: griffe.Class, *paths: str) -> bool:
    return any(item.callable_path in paths for item in thing.decorators)


def _is_final(thing: griffe.Class) -> bool:
    return _decorated(thing, "typing.final", "final")


def _is_hook(thing: griffe.Object) -> bool:
    return isinstance(thing, griffe.Function) and thing.name in _HOOKS


def _line(thing: griffe.Object) -> str:
    if isinstance(thing, griffe.Function):
        for kind in ("staticmethod", "classmethod"):
            if kind in thing.labels:
                return f"{kind} {_arguments(thing, bound=kind == 'classmethod')}"
        inside = isinstance(thing.parent, griffe.Class)
        return f"{'method' if inside else 'function'} {_arguments(thing, bound=inside)}"
    return "property" if "property" in thing.labels else thing.kind.value


def _arguments(function: griffe.Function, bound: bool) -> str:
    """The arguments of a call, with the text of their defaults and without annotations."""
    parameters = list(function.parameters)[int(bound) :]
    texts, keywords_marked = [], False
    for place, parameter in enumerate(parameters):
        kind, name = parameter.kind, parameter.name
        if kind is griffe.ParameterKind.var_positional:
            keywords_marked, name = True, f"*{name}"
        elif kind is griffe.ParameterKind.var_keyword:
            name = f"**{name}"
        elif kind is griffe.ParameterKind.keyword_only and not keywords_marked:
            keywords_marked = True
            texts.append("*")
        starred = name.startswith("*")
        texts.append(name if starred or parameter.default is None else f"{name}={parameter.default}")
        after = parameters[place + 1] if place + 1 < len(parameters) else None
        by_place = griffe.ParameterKind.positional_only
        if kind is by_place and (after is None or after.kind is not by_place):
            texts.append("/")
    return f"({', '.join(texts)})"
