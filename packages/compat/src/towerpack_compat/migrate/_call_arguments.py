"""The arguments of a call: renamed, removed or moved, if the call keeps its meaning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from ._name_table import CallChange

__all__ = ["change_arguments", "code_of", "has_equal_call", "hopeless_arguments"]

_NO_SPACES = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
_UNSET = ("None", "False")


def code_of(node: cst.CSTNode) -> str:
    """Returns the source of a node."""
    return str(cst.Module([]).code_for_node(node))


def has_equal_call(call: cst.Call, change: CallChange) -> bool:
    """Returns whether Towerpack has an equivalent call."""
    if change.changed or any(each.star for each in call.args):
        return False
    names = [_old_name(argument, place, change) for place, argument in enumerate(call.args)]
    written = [change.rename.get(name, name) for name in names if name]
    return len(set(written)) == len(written) and {*names}.isdisjoint((*change.hand, *change.stays))


def hopeless_arguments(call: cst.Call, change: CallChange) -> Iterator[tuple[str, str]]:
    """Yields the arguments without a counterpart, as source, and the section of the page about each."""
    for place, argument in enumerate(call.args):
        name = _old_name(argument, place, change)
        if name in change.hand and code_of(argument.value) != "None":
            yield f"{name}={' '.join(code_of(argument.value).split())}", change.hand[name]


def change_arguments(call: cst.Call, change: CallChange) -> cst.Call:
    """Converts a call for which `has_equal_call` is true to Towerpack's arguments.

    Args:
        call: the call.
        change: the changes of its arguments.
    """
    # The changes may have put keyword arguments before positional ones.
    changed = sorted(_changed(call.args, change), key=lambda each: each.keyword is not None)
    written = {each.keyword.value for each in changed if each.keyword is not None}
    added = [
        cst.Arg(cst.parse_expression(value), cst.Name(key), equal=_NO_SPACES)
        for key, value in change.add.items()
        if key not in written
    ]
    if not added and len(changed) == len(call.args):
        return call.with_changes(args=changed)
    return _with_arguments(call, [*changed, *added])


def _with_arguments(call: cst.Call, arguments: Sequence[cst.Arg]) -> cst.Call:
    """Returns the call with other arguments; the commas keep their formatting."""
    end = call.args[-1].comma if call.args else cst.MaybeSentinel.DEFAULT
    between = (
        call.args[0].comma if len(call.args) > 1 else cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    )
    inner = [
        each
        if isinstance(each.comma, cst.Comma) and each.comma is not end
        else each.with_changes(comma=between)
        for each in arguments[:-1]
    ]
    return call.with_changes(args=[*inner, *(each.with_changes(comma=end) for each in arguments[-1:])])


def _changed(arguments: Sequence[cst.Arg], change: CallChange) -> Iterator[cst.Arg]:
    places = 0
    for place, argument in enumerate(arguments):
        old = _old_name(argument, place, change)
        if old in change.drop:
            continue
        value = _wrapped(argument.value, change.wrap.get(old))
        new = change.rename.get(old, old)
        if argument.keyword is None and (not old or change.new[places : places + 1] == (old,)):
            places += 1
            yield argument.with_changes(value=value)
        elif argument.keyword is None:
            yield argument.with_changes(value=value, keyword=cst.Name(new), equal=_NO_SPACES)
        else:
            yield argument.with_changes(value=value, keyword=argument.keyword.with_changes(value=new))


def _old_name(argument: cst.Arg, place: int, change: CallChange) -> str:
    """The name of an argument in Tensorpack; empty if the table has none."""
    if argument.keyword is not None:
        return str(argument.keyword.value)
    return change.old[place] if not argument.star and place < len(change.old) else ""


def _wrapped(value: cst.BaseExpression, template: str | None) -> cst.BaseExpression:
    if template is None or code_of(value) in _UNSET:
        return value
    return cst.parse_expression(template.replace("{}", code_of(value)))
