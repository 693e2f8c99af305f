"""The names by which a source uses any flow, each where the flow has it. Free of TensorFlow."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

__all__ = [
    "as_flow",
    "flow_batch_size",
    "flow_size",
    "flow_state",
    "in_itself",
    "is_endless",
    "is_live",
    "is_sharded",
    "loaded_position",
    "no_state",
    "seed_flow",
    "state_of",
    "unread_state",
]

_log = logging.getLogger("towerpack_inputsource")


def as_flow(flow: Any) -> Iterable[Any]:
    """Checks that a source can read a flow again and again, and returns it.

    Raises:
        TypeError: the flow is no iterable, gives one pass only, has arrays where datapoints belong, or is a
            data set of `tf.data`.
    """
    if not hasattr(flow, "__iter__"):
        raise TypeError(
            f"An input source reads a DataFlow or another iterable, but received {flow!r}."
            + (
                " For a function that makes an iterator, write DataFromGenerator(it)."
                if callable(flow)
                else ""
            )
        )
    if hasattr(flow, "element_spec"):  # by its name: nothing here needs TensorFlow
        raise TypeError(
            f"Received {flow!r}, which only TensorFlow can iterate over in a graph. Write "
            "TFDatasetInput(dataset), in a TrainConfig as data= instead of dataflow=."
        )
    if _is_columns(flow):
        raise TypeError(
            f"Received {_columns(flow)}, where each datapoint is a list of components. Arrays of which each "
            "row is one example become a flow by DataFromArrays([images, labels]), and batches by "
            "BatchData(flow, 32)."
        )
    if hasattr(flow, "__next__"):
        raise TypeError(
            f"Received the iterator {flow!r}, which can be gone through once only. "
            "Pass a list, or a DataFlow such as DataFromGenerator(function)."
        )
    return flow  # type: ignore[no-any-return]


def _is_columns(flow: Any) -> bool:
    """Returns whether arrays stand where datapoints belong, which is known before anything is read."""
    if isinstance(flow, np.ndarray):
        return True
    return isinstance(flow, (list, tuple)) and bool(flow) and isinstance(flow[0], np.ndarray)


def _columns(flow: Any) -> str:
    if isinstance(flow, np.ndarray):
        return f"an array of shape {flow.shape}"
    return f"a {type(flow).__name__} of {len(flow)}, the first of them an array of shape {flow[0].shape}"


def seed_flow(flow: Any, seed: int) -> None:
    """Seeds a flow that takes a seed; another iterable has nothing to seed."""
    if hasattr(flow, "seed"):
        flow.seed(seed)


def flow_size(flow: Any) -> int | None:
    """Returns the number of datapoints in a pass, or None if it is unknown."""
    try:
        return len(flow)
    except (TypeError, NotImplementedError):
        return None


def flow_batch_size(flow: Any) -> int | None:
    """Returns the length of the first axis of all components, or None if it is unknown."""
    return getattr(flow, "fixed_batch_size", None)


def is_endless(flow: Any) -> bool:
    """Returns whether no pass of a flow ends, as it says by its attribute `endless`."""
    return bool(getattr(flow, "endless", False))


def is_live(flow: Any) -> bool:
    """Returns whether a flow's datapoints come into being while it is read, so that it has no position.

    A live flow says so by its attribute `live`. Its `state_dict()` is its own state, if it has one.
    """
    return bool(getattr(flow, "live", False))


def is_sharded(flow: Any) -> bool | None:
    """Returns whether a flow gives one process's share of an order; None if it does not say."""
    return getattr(flow, "sharded", None)


def no_state() -> Any:
    """Returns the state of a flow without one."""
    return None


def in_itself(flow: Any) -> Any:
    """Returns the flow that another object reads in its place and names as `reads`; any other flow itself."""
    return getattr(flow, "reads", flow)


def state_of(flow: Any) -> Callable[[], Any]:
    """Returns the function that tells a flow's state."""
    return getattr(flow, "state_dict", no_state)


def flow_state(flow: Any, position: Any) -> dict[str, Any]:
    """Returns what a source saves of a flow: the position, or the own state of a live flow.

    Args:
        flow: the flow.
        position: its position; not used of a live flow.
    """
    return {"live": state_of(flow)() or {}} if is_live(flow) else {"flow": position}


def unread_state(flow: Any, loaded: Any) -> dict[str, Any]:
    """Returns what a source saves of a flow that it has not read yet.

    Args:
        flow: the flow.
        loaded: what the source will load into it; None if nothing.
    """
    if is_live(flow) and loaded is not None:
        return {"live": loaded}
    return flow_state(flow, state_of(flow)() if loaded is None else loaded)


def loaded_position(flow: Any, state: Mapping[str, Any]) -> Any:
    """Returns what to load into a flow before it is read, out of a source's state; None if that is nothing.

    Raises:
        ValueError: the state was not saved by a source over such a flow.
    """
    wanted = "live" if is_live(flow) else "flow"
    if wanted == "live" and set(state) == {"flow"}:
        _log.info("%r is live, so the position in the saved state is not used.", flow)
        return None
    if set(state) != {wanted}:
        kind = "reads a live flow" if wanted == "live" else "reads a flow with a position"
        raise ValueError(
            f"Received a state with {sorted(state)}, but a source that {kind} saves [{wanted!r}]. "
            "Was the run that saved it using another input source, or another kind of flow?"
        )
    loaded = state[wanted]
    if wanted == "live" and not loaded:
        return None
    if loaded is not None and not hasattr(flow, "load_state_dict"):
        raise ValueError(
            f"The state holds {'a state' if wanted == 'live' else 'a position'}, but {flow!r} has no "
            "load_state_dict() to restore it. Give the kind of flow that the state was saved with."
        )
    return loaded
