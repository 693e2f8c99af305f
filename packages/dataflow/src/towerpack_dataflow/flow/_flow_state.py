"""The state of a flow, and the pass over the root of a tree, which counts its datapoints."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from .._errors import ArgumentError, FlowDefinitionError, NotAddressableError, StateError
from ._columns import Blocks
from ._epoch import Epoch, Position, as_lists
from ._node import Node
from ._tree_fingerprint import Fingerprint, differences, is_fingerprint, tree_fingerprint
from ._user_code import explain, running

__all__ = [
    "FORMAT",
    "Tree",
    "at",
    "begin",
    "begin_blocks",
    "dump",
    "dump_last",
    "lengths",
    "load",
    "load_live",
    "load_marks",
    "position_of",
    "seeds_below",
    "set_root_seed",
    "set_seeds_below",
    "walk",
]

FORMAT = 2  # under "version" in each state; a state without it has format 1
_READ = (1, 2)  # states of format 1 have no description of the tree
_DEEPEST = 500
_MOST = 100_000  # flows in a tree, in which some are held at several places
_REQUIRED = ("seed", "epoch", "index")
_OPTIONAL = ("version", "seeds", "marks", "flow")
_LONGEST = 500  # characters of a state in a message
_MARKED = re.compile(r"(\d+(\.\d+)*)?\*?")


class Tree(NamedTuple):
    """The flows of a tree during one pass, in which the tree does not change.

    Attributes:
        below: the flows below the root and their places, parents first. The root is left out, since its
            position holds this object: a reference cycle would keep its workers alive until the garbage
            collector runs.
        fingerprint: the description of the flows in a state.
        live: whether datapoints of the flows cannot be read again.
    """

    below: list[tuple[str, Node]]
    fingerprint: Fingerprint
    live: bool

    @classmethod
    def of(cls, flow: Node) -> Tree:
        """Builds the tree below `flow`."""
        nodes = [(_format_path(place), node) for place, node in walk(flow)]
        return cls(nodes[1:], tree_fingerprint(nodes), flow.live)


def dump(flow: Node) -> dict[str, Any]:
    """Returns the state of `flow`, ready for JSON.

    `seeds` (given to flows below the root) and `marks` (see `Position`) are present only if there are any.
    """
    position = flow._position
    tree: Tree = Tree.of(flow) if position is None or position.tree is None else position.tree
    if tree.live:
        return _dump_live(tree)
    position = position_of(flow)
    position.tree = tree
    return _described(tree, position)


def position_of(flow: Node) -> Position:
    """Returns the position of the youngest iterator, or the initial position."""
    if flow._position is None:
        flow._position = Position(flow._rooted(0))
    return flow._position


def at(flow: Node, number: int) -> dict[str, Any]:
    """Returns the state of `flow` after `number` datapoints since epoch 0.

    Raises:
        ArgumentError: `flow` has no datapoints, and `number` is above 0.
        NotAddressableError: `flow` is live.
        UnknownLengthError: `flow` does not know its length.
    """
    if flow.live:
        raise NotAddressableError(
            f"{flow._name()} is live: its datapoints cannot be read again, so it has no state at {number}"
        )
    length = len(flow)
    if number and not length:
        raise ArgumentError(f"state_at({number}) of {flow._name()}, which has only empty passes; use 0")
    epoch, index = divmod(number, length) if number else (0, 0)
    return _described(Tree.of(flow), Position(flow._rooted(epoch), index))


def _described(tree: Tree, position: Position) -> dict[str, Any]:
    epoch = position.epoch
    state: dict[str, Any] = {
        "version": FORMAT,
        "seed": epoch.seed,
        "epoch": int(epoch),
        "index": position.index,
        "flow": tree.fingerprint,
    }
    seeds = {place: node._seed for place, node in tree.below if node._seed is not None}
    if seeds:
        state["seeds"] = seeds
    # Operators may have read the first datapoint after a block already.
    if marks := position.block[-1] if position.block else epoch.marks:
        state["marks"] = as_lists(marks)
    return state


def dump_last(flow: Node, count: int) -> list[dict[str, Any]]:
    """Returns the states after each of the last datapoints of a block."""
    last = dump(flow)
    before = [{**last, "index": last["index"] - back} for back in range(count - 1, 0, -1)]
    for state, marks in zip(before, position_of(flow).block[-count:-1]):
        state.pop("marks", None)
        if marks:
            state["marks"] = as_lists(marks)
    return [*before, last]


def load(flow: Node, state: Mapping[str, Any]) -> Position:
    """Restores the seeds in the whole tree; returns the start of the next iterator.

    Nothing is changed unless all of `state` is valid.

    Raises:
        StateError: `state` does not come from `dump` of such a flow.
    """
    _check(state)
    tree = Tree.of(flow)
    seeds, marks = state.get("seeds", {}), state.get("marks", {})
    _check_fit(flow, tree, state)
    flow.seed(state["seed"])
    _forget(flow)
    for place, node in tree.below:
        if place in seeds:
            node.seed(seeds[place])
    for place, node in [("", flow), *tree.below]:
        if place in marks:
            node._loaded(marks[place])
    return Position(Epoch(state["epoch"], state["seed"], (), as_lists(marks)), state["index"])


def _dump_live(tree: Tree) -> dict[str, Any]:
    """Returns the individual states of the live flows in a tree; such a tree has no position."""
    own = {place: node.state_dict() for place, node in tree.below if node._keeps_own_state()}
    own = {place: state for place, state in own.items() if state}
    return {"live": own} if own else {}


def _forget(flow: Node) -> None:
    """Discards traces of earlier passes in a tree, except where workers have copies, which keep them."""
    flow._loaded(None)
    if not flow._copied:
        for child in flow.children():
            _forget(child)


def load_live(flow: Node, state: Mapping[str, Any]) -> None:
    """Restores the states of live flows in a tree; drops a position saved before the flow was live.

    Raises:
        StateError: `state` does not come from `dump_live` of such a flow.
    """
    if not isinstance(state, Mapping):
        raise StateError(f"a state is the dict that state_dict() returns; received {type(state).__name__}")
    own = state.get("live", {})
    wrong = sorted(map(repr, set(state).difference((*_REQUIRED, *_OPTIONAL, "live"))))
    places = {place: node for place, node in Tree.of(flow).below if node._keeps_own_state()}
    if wrong or not isinstance(own, Mapping) or not own.keys() <= places.keys():
        raise StateError(
            f"the state of {flow._name()}, which is live, holds under 'live' the states of the flows "
            f"{sorted(places)} at most, and no position; received {_shown(state)}"
        )
    for place, theirs in own.items():
        places[place].load_state_dict(theirs)


def load_marks(flow: Node, marks: Mapping[str, Iterable[int]], path: tuple[int, ...] = ()) -> None:
    """Restores the mark of each flow in a tree with its root at `path`, from a state or a copy."""
    for place, node in walk(flow, path):
        if _format_path(place) in marks:
            node._loaded(marks[_format_path(place)])


def seeds_below(flow: Node) -> dict[str, int]:
    """Returns the seeds given to flows below `flow`, by place."""
    return {_format_path(place): node._seed for place, node in walk(flow) if place and node._seed is not None}


def set_root_seed(flow: Node, seed: int | None) -> None:
    """Sets the seed of the root of a tree, and keeps those below, which `flow.seed()` clears."""
    flow._seed = seed


def set_seeds_below(flow: Node, seeds: Mapping[str, int]) -> None:
    """Sets these seeds below `flow` and clears all others: a worker's copy follows its original."""
    for place, node in walk(flow):
        if place:
            node._seed = seeds.get(_format_path(place))


def walk(flow: Node, path: tuple[int, ...] = ()) -> list[tuple[tuple[int, ...], Node]]:
    """Lists all flows of a tree with their places, parents first.

    Raises:
        FlowDefinitionError: a flow holds itself, or holds one that holds it.
    """
    found: list[tuple[tuple[int, ...], Node]] = [(path, flow)]
    for place, node in found:  # including those appended meanwhile
        below = node.children()
        if len(place) > _DEEPEST or len(found) > _MOST:
            raise FlowDefinitionError(
                f"{node._name()} holds itself, or flows are over each other {_DEEPEST} deep; "
                "let an attribute that leads back up to a flow above be a weakref.ref"
            )
        if node.effect.keeps_place:
            found += [(place, child) for child in below]
        else:
            found += [((*place, number), child) for number, child in enumerate(below)]
    return found


def _format_path(place: tuple[int, ...]) -> str:
    """Returns the name that `Epoch.key` gives a place."""
    return ".".join(map(str, place))


def _check(state: Mapping[str, Any]) -> None:
    if not isinstance(state, Mapping):
        raise StateError(f"a state is the dict that state_dict() returns; received {type(state).__name__}")
    _check_format(state.get("version", 1))
    wrong = sorted(map(repr, set(state).difference(_REQUIRED + _OPTIONAL)))
    wrong += [repr(key) for key in _REQUIRED if not _is_count(state.get(key))]
    wrong += [repr(key) for key, right in _FORMS.items() if key in state and not right(state[key])]
    if wrong:
        raise StateError(
            f"a state holds the integers {', '.join(_REQUIRED)}, none below 0; "
            f"missing, wrong or unknown here: {', '.join(wrong)} in {_shown(state)}"
        )


def _check_format(number: object) -> None:
    if not _is_count(number) or number not in _READ:
        raise StateError(
            f"this state has version {number!r}, and this release reads version {FORMAT} and those "
            "before; use the release of towerpack-dataflow that wrote it, or a later one: those read it"
        )


def _check_fit(flow: Node, tree: Tree, state: Mapping[str, Any]) -> None:
    found = differences(state["flow"], tree.fingerprint) if "flow" in state else {}
    if found:
        texts = [f"{name} was {theirs} and is {ours}" for name, (theirs, ours) in found.items()]
        raise StateError(
            f"the state is not of {flow!r}: {'; '.join(texts)}. Load it into a flow built alike; without its "
            "entry 'flow' a state is loaded unchecked, and its index then counts the datapoints of this one",
            found,
        )
    strange = set(state.get("seeds", {})).difference(place for place, _ in tree.below)
    if strange:
        raise StateError(f"the state has seeds for flows that {flow!r} has not, at {sorted(strange)}")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _are_seeds(seeds: object) -> bool:
    return isinstance(seeds, Mapping) and all(map(_is_count, seeds.values()))


def _are_marks(marks: object) -> bool:
    return isinstance(marks, Mapping) and all(
        isinstance(place, str)
        and _MARKED.fullmatch(place) is not None
        and isinstance(numbers, (list, tuple))
        and all(map(_is_count, numbers))
        for place, numbers in marks.items()
    )


_FORMS = {"seeds": _are_seeds, "marks": _are_marks, "flow": is_fingerprint}


def _shown(state: Mapping[str, Any]) -> str:
    text = repr(dict(state))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


class _Lengths(threading.local):
    of_first_host = False


lengths = _Lengths()
"""`lengths.of_first_host` makes `len()` of a part of an order that of the first, and so the longest, part."""


def begin(flow: Node) -> Iterator[Any]:
    """Starts the next pass with this flow as the root."""
    _make_ready(flow)
    outer = running.get()
    if outer is not None and not outer.places(flow):
        return _counted(flow, Position(outer.begin(flow)))
    # A seed set in the middle of a pass applies from the next one.
    flow._position = position_of(flow).next_pass(flow._seed)
    flow._position.started = True
    return _counted(flow, flow._position)


def begin_blocks(flow: Node, most: int, first: int) -> Iterator[Any] | None:
    """Starts the next pass with this flow as the root, in blocks; see `DataFlow.iter_blocks`."""
    _make_ready(flow)
    if running.get() is not None:
        return None
    position = position_of(flow).next_pass(flow._seed)
    if position.index and flow.addressable and position.index >= len(flow):
        return None  # `_rest` ends that pass, or raises
    blocks = flow._blocks(position.epoch, position.index, most, first)
    if blocks is None:
        return None
    position.started, flow._position = True, position
    return _counted_blocks(flow, position, blocks)


def _make_ready(flow: Node) -> None:
    if not flow._ready:
        walk(flow)  # refuses a tree with a circle
        flow.reset_state()
        flow._ready = True


def _counted_blocks(flow: Node, position: Position, blocks: Blocks) -> Iterator[Any]:
    """Runs one pass over the root of a tree in blocks, and counts their datapoints."""
    try:
        for block, count, marks in blocks:
            position.index += count
            position.block = marks
            yield block
    except Exception as error:
        explain(error, flow, position)
        raise
    position.finish(flow._seed)


def _counted(flow: Node, position: Position) -> Iterator[Any]:
    """Runs one pass over the root of a tree, and counts its datapoints."""
    try:
        index = position.index
        for datapoint in _rest(flow, position):
            # Count it before yielding it: while the consumer holds datapoint 7, the state says 8.
            index += 1
            position.index = index
            yield datapoint
            del datapoint  # its memory is for the next one
    except Exception as error:
        explain(error, flow, position)
        raise
    position.finish(flow._seed)


def _rest(flow: Node, position: Position) -> Iterator[Any]:
    """Returns the datapoints of a pass from a position on; the position must lie in this flow."""
    index = position.index
    if index and flow.addressable and index > len(flow):
        # All hosts of a state are at one index, and the shards of some hosts are longer by one.
        if index > (most := _longest(flow)):
            raise StateError(
                f"the state says {index} datapoints of this epoch were seen, and {flow._name()} has {most}; "
                "load the state into a flow over the same data"
            )
        return iter(())
    return flow._datapoints(position.epoch, index)


def _longest(flow: Node) -> int:
    """Returns the length of a pass on the first host, which has the longest parts."""
    lengths.of_first_host = True
    try:
        return len(flow)
    finally:
        lengths.of_first_host = False
