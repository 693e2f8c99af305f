"""Classes of a script that extend those of Tensorpack: methods and attributes that have another name now."""

from __future__ import annotations

from typing import final

import libcst as cst

from ._call_arguments import change_arguments, code_of
from ._findings import Findings
from ._name_table import CallChange

__all__ = ["ClassRules"]

_FLOWS = ("DataFlow", "ProxyDataFlow", "RNGDataFlow")
_MODELS = ("ModelDesc", "ModelDescBase")
_TRAINERS = ("Trainer", "TowerTrainer", "SingleCostTrainer")
_METHODS = {
    **{name: {"get_data": "__iter__", "size": "__len__"} for name in _FLOWS},
    **{name: {"_get_inputs": "inputs", "_get_optimizer": "optimizer"} for name in _MODELS},
    "HyperParamSetter": {"_get_value_to_set": "_value_now"},
}
# `self.rng` of a flow was a RandomState, and is a Generator.
_OF_RNG = {
    "rand": "random",
    "randint": "integers",
    "randn": "standard_normal",
    "random_sample": "random",
}
_ATTRIBUTES = {"get_tensors_maybe_in_tower": "trainer.get_tensors", "_chief_only": "chief_only"}
_CALLBACKS = ("Callback", "Inferencer", "ProxyCallback")
_SPEC = CallChange(old=["dtype", "shape", "name"], new=["shape"])


@final
class ClassRules:
    """Follows the classes and functions that a walk is in."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._bases: list[list[str]] = []
        self._functions: list[str] = []

    def enter(self, node: cst.CSTNode, bases: list[str]) -> None:
        """Notes that a class or a function begins; `bases` are Tensorpack's names of a class's bases."""
        if isinstance(node, cst.ClassDef):
            self._bases.append(bases)
            self._mark(bases)
        elif isinstance(node, cst.FunctionDef):
            self._functions.append(node.name.value)

    def leave(self, node: cst.CSTNode) -> None:
        """Notes that it ends."""
        if isinstance(node, cst.ClassDef):
            self._bases.pop()
        elif isinstance(node, cst.FunctionDef):
            self._functions.pop()

    def method(self, function: cst.FunctionDef) -> cst.FunctionDef:
        """Returns a method under the name that it has now."""
        name = function.name.value
        if self._is_of("Inferencer") and name == "_on_fetches" and len(function.params.params) == 2:
            parameters = [*function.params.params, cst.Param(cst.Name("batch_size"))]
            return function.with_changes(params=function.params.with_changes(params=parameters))
        if self._is_of(*_MODELS) and name == "_build_graph":
            self._findings.mark("`build_graph` takes each input and returns the cost", "#older-models")
        for base in self._bases[-1] if self._bases else ():
            new = _METHODS.get(base, {}).get(name)
            if new is not None:
                return function.with_changes(name=cst.Name(new))
        return function

    def attribute(self, node: cst.Attribute) -> cst.Attribute:
        """Returns `self.<attribute>` under the name that it has now."""
        name, owner = node.attr.value, node.value
        if self._is_of(*_CALLBACKS) and name in _ATTRIBUTES and _is_self(owner):
            before, _, last = f"self.{_ATTRIBUTES[name]}".rpartition(".")
            return node.with_changes(value=cst.parse_expression(before), attr=cst.Name(last))
        of_rng = isinstance(owner, cst.Attribute) and owner.attr.value == "rng" and _is_self(owner.value)
        if self._is_of(*_FLOWS) and of_rng and name in _OF_RNG:
            return node.with_changes(attr=cst.Name(_OF_RNG[name]))
        return node

    def assigned(self, node: cst.AssignTarget) -> cst.AssignTarget:
        """Returns the target of an assignment in a class under the name that it has now."""
        target = node.target
        if self._is_of(*_CALLBACKS) and isinstance(target, cst.Name) and target.value == "_chief_only":
            return node.with_changes(target=cst.Name("chief_only"))
        return node

    def call(self, call: cst.Call, path: str) -> cst.Call:
        """Returns a call in a method: a placeholder in a model's `inputs` is a specification now."""
        in_inputs = self._functions[-1:] in (["inputs"], ["_get_inputs"]) and self._is_of(*_MODELS)
        if in_inputs and path == "tensorflow.placeholder" and isinstance(call.func, cst.Attribute):
            spec = call.with_changes(func=call.func.with_changes(attr=cst.Name("TensorSpec")))
            return change_arguments(spec, _SPEC, "placeholder", self._findings)
        if self._is_of(*_FLOWS) and isinstance(call.func, cst.Attribute):
            return _with_shape(call) if call.args else _without_get_data(call, call.func)
        return call

    def _mark(self, bases: list[str]) -> None:
        for base in bases:
            if base == "Inferencer":
                self._findings.mark("`produces()` names the statistics", "#an-inferencer-of-your-own")
            elif base in _TRAINERS:
                self._findings.mark("a trainer builds in `_setup`", "#a-trainer-of-your-own")
            elif base in {"InputSource", "FeedfreeInput"}:
                self._findings.mark("an input source has other methods", "#inputsource")

    def _is_of(self, *names: str) -> bool:
        return bool(self._bases) and not set(names).isdisjoint(self._bases[-1])


def _without_get_data(call: cst.Call, function: cst.Attribute) -> cst.Call:
    """`self.ds.get_data()` is `iter(self.ds)`, and `self.ds.size()` is `len(self.ds)`."""
    builtin = {"get_data": "iter", "size": "len"}.get(function.attr.value)
    owner = function.value
    if builtin is None or not (isinstance(owner, cst.Attribute) and _is_self(owner.value)):
        return call
    return call.with_changes(func=cst.Name(builtin), args=[cst.Arg(owner)])


def _with_shape(call: cst.Call) -> cst.Call:
    """`self.rng.random(3, 4)`, which was `rand`, takes a tuple."""
    code = code_of(call.func)
    if len(call.args) < 2 or code not in {"self.rng.random", "self.rng.standard_normal"}:
        return call
    elements = [cst.Element(each.value) for each in call.args]
    return call.with_changes(args=[cst.Arg(cst.Tuple(elements))])


def _is_self(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) and node.value == "self"
