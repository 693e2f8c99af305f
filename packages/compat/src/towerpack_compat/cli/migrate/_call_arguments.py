"""The arguments of a call: renamed, left out, moved, or marked for a person."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import libcst as cst

from ._findings import Findings
from ._name_table import CallChange

__all__ = ["change_arguments", "code_of", "keyword", "with_arguments", "with_finite_input"]

_NO_SPACES = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
_COMMA = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
_UNSET = ("None", "False")
# Sources of which an evaluation needs one that ends.
_SOURCES = ("QueueInput", "FeedInput", "TFDatasetInput", "TensorInput")


def code_of(node: cst.CSTNode) -> str:
    """Returns the source of a node."""
    return str(cst.Module([]).code_for_node(node))


def keyword(name: str, value: cst.BaseExpression) -> cst.Arg:
    """Returns the argument `name=value`."""
    return cst.Arg(value, cst.Name(name), equal=_NO_SPACES)


def with_arguments(call: cst.Call, arguments: Sequence[cst.Arg]) -> cst.Call:
    """Returns the call with other arguments, between commas as they were."""
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


def change_arguments(call: cst.Call, change: CallChange, name: str, findings: Findings) -> cst.Call:
    """Returns the call as ours takes it, and marks what a person has to look at.

    Args:
        call: the call.
        change: what to do with its arguments.
        name: what is called, for the marks.
        findings: where to mark.
    """
    if change.changed:
        findings.mark(f"`{name}` works in another way", change.changed)
    if any(each.star == "*" for each in call.args) and (
        change.drop or change.hand or change.new != change.old
    ):
        findings.mark(f"`{name}` takes other arguments", "#arguments-without-a-counterpart")
        return call
    # Names that are written now may stand before arguments without one.
    changed = sorted(_changed(call.args, change, name, findings), key=lambda each: each.keyword is not None)
    written = [each.keyword.value for each in changed if each.keyword is not None]
    if len(set(written)) < len(written):  # a call that Tensorpack refuses, too
        findings.mark(f"`{name}` takes other arguments", "#arguments-without-a-counterpart")
        return call
    added = [
        keyword(key, cst.parse_expression(value)) for key, value in change.add.items() if key not in written
    ]
    if not added and len(changed) == len(call.args):
        return call.with_changes(args=changed)
    return with_arguments(call, [*changed, *added])


def with_finite_input(
    original: cst.Call, call: cst.Call, called: Callable[[cst.BaseExpression], str]
) -> cst.Call:
    """Returns an `InferenceRunner` whose input source, if it is made in the call, ends with its data.

    Args:
        original: the call in the script.
        call: the call with its parts rewritten.
        called: says which name of Tensorpack an expression is.
    """
    first, source = original.args[:1], call.args[:1]
    if not first or not isinstance(first[0].value, cst.Call) or not isinstance(source[0].value, cst.Call):
        return call
    made = source[0].value
    if called(first[0].value.func) == "StagingInput":
        made = with_finite_input(first[0].value, made, called)
    elif called(first[0].value.func) in _SOURCES and "infinite" not in {
        _keyword_of(each) for each in made.args
    }:
        made = with_arguments(made, [*made.args, keyword("infinite", cst.Name("False"))])
    return call.with_changes(args=[source[0].with_changes(value=made), *call.args[1:]])


def _keyword_of(argument: cst.Arg) -> str:
    return argument.keyword.value if argument.keyword is not None else ""


def _changed(
    arguments: Sequence[cst.Arg], change: CallChange, name: str, findings: Findings
) -> Iterator[cst.Arg]:
    places = 0
    for place, argument in enumerate(arguments):
        old = _old_name(argument, place, change)
        if old in change.drop:
            continue
        if old in change.hand:
            text = " ".join(code_of(argument.value).split())
            findings.mark(f"`{name}({old}={text})` has no counterpart", change.hand[old])
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
    """The name of an argument in Tensorpack; empty where the table knows of none."""
    if argument.keyword is not None:
        return str(argument.keyword.value)
    return change.old[place] if not argument.star and place < len(change.old) else ""


def _wrapped(value: cst.BaseExpression, template: str | None) -> cst.BaseExpression:
    if template is None or code_of(value) in _UNSET:
        return value
    return cst.parse_expression(template.replace("{}", code_of(value)))
