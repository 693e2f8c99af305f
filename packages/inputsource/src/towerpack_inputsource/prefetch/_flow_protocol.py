"""The optional methods and attributes of flows, as used by sources. Needs no TensorFlow."""

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
    "needs_no_training",
    "no_state",
    "seed_flow",
    "state_of",
    "unread_state",
]

_log = logging.getLogger("towerpack_inputsource")


def as_flow(flow: Any) -> Iterable[Any]:
    """Checks that a source can read a flow repeatedly, and returns it.

    Raises:
        TypeError: the flow is not iterable, gives only one pass, contains arrays instead of datapoints, or is
            a dataset of `tf.data`.
    """
    if not hasattr(flow, "__iter__"):
        raise TypeError(
            f"An input source reads a DataFlow or another iterable, but received {flow!r}."
            + (
                " For a function that returns an iterator, write DataFromGenerator(it)."
                if callable(flow)
                else ""
            )
        )
    if hasattr(flow, "element_spec"):  # detected by name, without TensorFlow
        raise TypeError(
            f"Received {flow!r}, which only TensorFlow can iterate over in a graph. Write "
            "TFDatasetInput(dataset), in a TrainConfig as data= instead of dataflow=."
        )
    if _is_columns(flow):
        raise TypeError(
            f"Received {_columns(flow)}, but each datapoint must be a list of components. For arrays with "
            "one example per row, write DataFromArrays([images, labels]), and BatchData(flow, 32) for "
            "batches."
        )
    if hasattr(flow, "__next__"):
        raise TypeError(
            f"Received the iterator {flow!r}, which allows only one pass. Pass a list, or a DataFlow such "
            "as DataFromGenerator(function)."
        )
    return flow  # type: ignore[no-any-return]


def _is_columns(flow: Any) -> bool:
    """Returns whether an object contains arrays instead of datapoints, without reading it."""
    if isinstance(flow, np.ndarray):
        return True
    return isinstance(flow, (list, tuple)) and bool(flow) and isinstance(flow[0], np.ndarray)


def _columns(flow: Any) -> str:
    if isinstance(flow, np.ndarray):
        return f"an array of shape {flow.shape}"
    return f"a {type(flow).__name__} of {len(flow)}, the first of them an array of shape {flow[0].shape}"


def seed_flow(flow: Any, seed: int) -> None:
    """Seeds a flow that supports seeds; other iterables are ignored."""
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
    """Returns whether passes of a flow never end, from its attribute `endless`."""
    return bool(getattr(flow, "endless", False))


def is_live(flow: Any) -> bool:
    """Returns whether a flow's datapoints are created while it is read, so that it has no position.

    A live flow has the attribute `live`. Its `state_dict()`, if any, is its own state instead of a position.
    """
    return bool(getattr(flow, "live", False))


def needs_no_training(flow: Any) -> bool:
    """Returns whether no datapoint of a flow waits for steps that use earlier ones."""
    return isinstance(flow, (list, tuple)) or bool(getattr(in_itself(flow), "addressable", False))


def is_sharded(flow: Any) -> bool | None:
    """Returns whether a flow gives one process's share of an order; None if unknown."""
    return getattr(flow, "sharded", None)


def no_state() -> Any:
    """Returns the state of a flow without one."""
    return None


def in_itself(flow: Any) -> Any:
    """Returns the flow that a wrapper names in `reads`, or the flow itself."""
    return getattr(flow, "reads", flow)


def state_of(flow: Any) -> Callable[[], Any]:
    """Returns the function that returns a flow's state."""
    return getattr(flow, "state_dict", no_state)


def flow_state(flow: Any, position: Any) -> dict[str, Any]:
    """Returns the state of a flow for a source to save: the position, or the state of a live flow.

    Args:
        flow: the flow.
        position: its position; ignored for a live flow.
    """
    return {"live": state_of(flow)() or {}} if is_live(flow) else {"flow": position}


def unread_state(flow: Any, loaded: Any) -> dict[str, Any]:
    """Returns the state to save for a flow that has not been read yet.

    Args:
        flow: the flow.
        loaded: the state that the source will load into it; None if nothing.
    """
    if is_live(flow) and loaded is not None:
        return {"live": loaded}
    return flow_state(flow, state_of(flow)() if loaded is None else loaded)


def loaded_position(flow: Any, state: Mapping[str, Any]) -> Any:
    """Returns the state to load into a flow, from a source's state; None if there is none.

    Raises:
        ValueError: the state was not saved by a source over this kind of flow.
    """
    wanted = "live" if is_live(flow) else "flow"
    if wanted == "live" and set(state) == {"flow"}:
        _log.info("%r is live; ignoring the position in the saved state.", flow)
        return None
    if set(state) != {wanted}:
        kind = "reads a live flow" if wanted == "live" else "reads a flow with a position"
        raise ValueError(
            f"Received a state with {sorted(state)}, but a source that {kind} saves [{wanted!r}]. "
            "The run that saved it probably used another input source or another kind of flow."
        )
    loaded = state[wanted]
    if wanted == "live" and not loaded:
        return None
    if loaded is not None and not hasattr(flow, "load_state_dict"):
        raise ValueError(
            f"The state contains {'a state' if wanted == 'live' else 'a position'}, but {flow!r} has no "
            "load_state_dict() to restore it. Use the kind of flow with which the state was saved."
        )
    return loaded
