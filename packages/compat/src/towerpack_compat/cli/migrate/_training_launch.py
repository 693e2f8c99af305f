"""Where a script starts its training: `launch_train_with_config` becomes a trainer of the configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import final

import libcst as cst
from libcst.metadata import Assignment, CodePosition, CodeRange, Scope

from ._call_arguments import with_arguments
from ._imported_names import ImportedNames, walk

__all__ = ["Launches"]

_LAUNCH = "launch_train_with_config"
_TRAINERS = (
    "SimpleTrainer",
    "QueueInputTrainer",
    "NoOpTrainer",
    "SyncMultiGPUTrainer",
    "SyncMultiGPUTrainerParameterServer",
    "SyncMultiGPUTrainerReplicated",
    "AsyncMultiGPUTrainer",
    "HorovodTrainer",
    "BytePSTrainer",
    "DistributedTrainerReplicated",
    "DistributedTrainerParameterServer",
)


@final
class Launches:
    """The launches of one script.

    Args:
        module: the script.
        names: what its names stand for.
        scopes: the scope of each node.
        positions: where nodes stand.
    """

    def __init__(
        self,
        module: cst.Module,
        names: ImportedNames,
        scopes: Mapping[cst.CSTNode, Scope | None],
        positions: Mapping[cst.CSTNode, CodeRange],
    ) -> None:
        self._names = names
        self._scopes = scopes
        self._positions = positions
        self._configs: dict[cst.CSTNode, cst.BaseExpression] = {}
        self._rewritten: set[cst.CSTNode] = set()
        for node in walk(module):
            if isinstance(node, cst.Call) and self._name(node.func) == _LAUNCH:
                self._find_trainers(node)

    def is_rewritten(self, call: cst.CSTNode) -> bool:
        """Returns whether a call is a launch that is written anew, so that its name is no longer needed."""
        return call in self._rewritten

    def rewrite(self, original: cst.Call, call: cst.Call) -> cst.BaseExpression:
        """Returns what stands for a call: a trainer with its configuration, or its training.

        Args:
            original: the call in the script.
            call: the call with its parts rewritten.
        """
        if original in self._configs:
            return _with_config(call, self._configs[original])
        if original not in self._rewritten:
            return call
        config, trainer = (each.value for each in _in_order(call))
        if not isinstance(trainer, cst.Name):
            trainer = _made_with(trainer, config)
        if isinstance(trainer, cst.IfExp) and not trainer.lpar:
            trainer = trainer.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        return cst.Call(cst.Attribute(trainer, cst.Name("train")), lpar=call.lpar, rpar=call.rpar)

    def _find_trainers(self, call: cst.Call) -> None:
        arguments = _in_order(call)
        if len(arguments) != 2:
            return
        config, trainer = (each.value for each in arguments)
        if all(self._is_trainer(each) for each in _branches(trainer)):
            self._rewritten.add(call)
        elif isinstance(trainer, cst.Name) and isinstance(config, cst.Name):
            made = list(self._assigned(trainer))
            trainers = [each for value in made for each in _branches(value)]
            if trainers and all(self._is_trainer(each) for each in trainers) and self._is_known(config, made):
                self._rewritten.add(call)
                self._configs |= dict.fromkeys(trainers, config)

    def _assigned(self, name: cst.Name) -> Iterator[cst.BaseExpression]:
        """Yields what is assigned to a name in its scope; None's place is taken by the name itself."""
        scope = self._scopes.get(name)
        for each in scope[name.value] if scope is not None else ():
            parent = self._statement_of(each) if isinstance(each, Assignment) else None
            yield parent.value if parent is not None else name

    def _statement_of(self, assignment: Assignment) -> cst.Assign | None:
        for node in self._positions:
            if isinstance(node, cst.Assign) and any(
                target.target is assignment.node for target in node.targets
            ):
                return node
        return None

    def _is_known(self, config: cst.Name, made: list[cst.BaseExpression]) -> bool:
        """Whether the configuration has its value before the first trainer is made."""
        scope = self._scopes.get(config)
        given = scope[config.value] if scope is not None else set()
        ends = [self._start(each.node) for each in given if isinstance(each, Assignment)]
        first = min((self._start(each) for each in made), default=None)
        return bool(ends) and first is not None and max(ends) < first

    def _start(self, node: cst.CSTNode) -> tuple[int, int]:
        start: CodePosition = self._positions[node].start
        return start.line, start.column

    def _is_trainer(self, node: cst.BaseExpression) -> bool:
        return isinstance(node, cst.Call) and self._name(node.func) in _TRAINERS

    def _name(self, node: cst.BaseExpression) -> str:
        imported = self._names.resolve(node)
        return imported.path.rpartition(".")[2] if imported and imported.path.startswith("tensorpack") else ""


def _in_order(call: cst.Call) -> list[cst.Arg]:
    """The arguments `config` and `trainer`, in this order."""
    places = {"config": 0, "trainer": 1}
    known = [each for each in call.args if not each.star]
    return sorted(
        known, key=lambda each: places.get(each.keyword.value, 2) if each.keyword else known.index(each)
    )


def _branches(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    if isinstance(node, cst.IfExp):
        yield from _branches(node.body)
        yield from _branches(node.orelse)
    else:
        yield node


def _made_with(trainer: cst.BaseExpression, config: cst.BaseExpression) -> cst.BaseExpression:
    if isinstance(trainer, cst.IfExp):
        return trainer.with_changes(
            body=_made_with(trainer.body, config), orelse=_made_with(trainer.orelse, config)
        )
    return _with_config(trainer, config) if isinstance(trainer, cst.Call) else trainer


def _with_config(trainer: cst.Call, config: cst.BaseExpression) -> cst.Call:
    return with_arguments(trainer, [cst.Arg(config), *trainer.args])
