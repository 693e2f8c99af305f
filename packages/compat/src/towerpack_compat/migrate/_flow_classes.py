"""Classes of a script that extend flows and models: renamed methods."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeGuard, final

import libcst as cst

from ._findings import Findings

__all__ = ["FlowClasses"]

_FLOWS = ("DataFlow", "ProxyDataFlow", "RNGDataFlow")
_METHODS = {"get_data": "__iter__", "size": "__len__"}
_BUILTINS = {"get_data": "iter", "size": "len"}
# `self.rng` of an `RNGDataFlow` was a RandomState and now is a Generator; that of another class is its own.
_OF_RNG = {"rand": "random", "randint": "integers", "randn": "standard_normal", "random_sample": "random"}


@final
class FlowClasses:
    """Tracks the classes around the current node of a walk.

    Args:
        findings: collects the remaining old methods.
        kept: names of Tensorpack that stay, with Tensorpack's meanings.
        rename: whether to rename methods.
    """

    def __init__(self, findings: Findings, kept: Collection[str], rename: bool) -> None:
        self._findings = findings
        self._flows = {*_FLOWS}.difference(kept)
        self._rename = rename
        self._bases: list[list[str]] = []

    def enter(self, node: cst.CSTNode, bases: list[str]) -> None:
        """Enters a class; `bases` are Tensorpack's names of its bases."""
        if isinstance(node, cst.ClassDef):
            self._bases.append(bases)

    def leave(self, node: cst.CSTNode) -> None:
        """Leaves the class."""
        if isinstance(node, cst.ClassDef):
            self._bases.pop()

    def method(self, function: cst.FunctionDef) -> cst.FunctionDef:
        """Returns a method under its new name."""
        name = function.name.value
        if name not in _METHODS or not self._bases:
            return function
        if self._in_flow() and self._rename:
            return function.with_changes(name=cst.Name(_METHODS[name]))
        self._findings.has_old_methods |= bool(self._bases[-1])
        return function

    def call(self, call: cst.Call) -> cst.Call:
        """Returns a call of a method of a flow, or of its random numbers, in Towerpack's form."""
        function = call.func
        if not isinstance(function, cst.Attribute):
            return call
        name, owner = function.attr.value, function.value
        draws = self._in_flow() and "RNGDataFlow" in self._bases[-1]
        if draws and name in _OF_RNG and _is_of_self(owner) and owner.attr.value == "rng":
            return _with_shape(call.with_changes(func=function.with_changes(attr=cst.Name(_OF_RNG[name]))))
        if name == "tostring" and not call.args:  # of arrays, until NumPy 2.3
            return call.with_changes(func=function.with_changes(attr=cst.Name("tobytes")))
        if name not in _METHODS or call.args:
            return call
        if self._in_flow() and self._rename and _is_of_self(owner):
            return call.with_changes(func=cst.Name(_BUILTINS[name]), args=[cst.Arg(owner)])
        self._findings.has_old_methods = True
        return call

    def _in_flow(self) -> bool:
        return bool(self._bases) and not self._flows.isdisjoint(self._bases[-1])


def _with_shape(call: cst.Call) -> cst.Call:
    """Packs the arguments of `self.rng.random`, formerly `rand(3, 4)`, into a tuple."""
    function = cst.ensure_type(call.func, cst.Attribute)
    if len(call.args) < 2 or function.attr.value not in {"random", "standard_normal"}:
        return call
    return call.with_changes(args=[cst.Arg(cst.Tuple([cst.Element(each.value) for each in call.args]))])


def _is_of_self(node: cst.BaseExpression) -> TypeGuard[cst.Attribute]:
    return isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name) and node.value.value == "self"
