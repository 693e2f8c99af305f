"""Layers that repeat a cell over time."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from towerpack_layers import GRU, LSTM, RNN, BidirectionalRNN, GRUCell, LSTMCell, MultiRNNCell
from towerpack_layers.testing import LayerCase

Variables = Mapping[str, np.ndarray]
States = list[np.ndarray]
Step = Callable[[np.ndarray, States], States]

BASIC = "basic_lstm_cell/"
LSTM_VARIABLES = (f"{BASIC}kernel", f"{BASIC}bias")
GRU_VARIABLES = tuple(
    f"gru_cell/{part}/{name}" for part in ("gates", "candidate") for name in ("kernel", "bias")
)
SHAPE = (3, 5, 4)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def lstm_step(variables: Variables, prefix: str = BASIC, forget_bias: float = 1.0) -> Step:
    """One step of an LSTM, with the output as the last part of the state."""

    def step(x: np.ndarray, state: States) -> States:
        c, h = state
        gates = np.concatenate([x, h], 1) @ variables[f"{prefix}kernel"] + variables[f"{prefix}bias"]
        i, j, f, o = np.split(gates, 4, 1)
        c = sigmoid(f + forget_bias) * c + sigmoid(i) * np.tanh(j)
        return [c, sigmoid(o) * np.tanh(c)]

    return step


def gru_step(variables: Variables, prefix: str = "gru_cell/") -> Step:
    """One step of a GRU."""
    gates, gates_bias, new, new_bias = (
        variables[f"{prefix}{part}/{name}"] for part in ("gates", "candidate") for name in ("kernel", "bias")
    )

    def step(x: np.ndarray, state: States) -> States:
        (h,) = state
        r, u = np.split(sigmoid(np.concatenate([x, h], 1) @ gates + gates_bias), 2, 1)
        candidate = np.tanh(np.concatenate([x, r * h], 1) @ new + new_bias)
        return [u * h + (1 - u) * candidate]

    return step


def repeat(
    x: np.ndarray, step: Step, sizes: list[int], lengths: list[int] | None = None, back: bool = False
) -> np.ndarray:
    """The outputs of a cell for each sequence by itself, zeros after its end."""
    outputs = np.zeros([*x.shape[:2], sizes[-1]])
    for number, sequence in enumerate(x):
        times = range(x.shape[1] if lengths is None else lengths[number])
        state = [np.zeros([1, size]) for size in sizes]
        for time in reversed(times) if back else times:
            state = step(sequence[None, time], state)
            outputs[number, time] = state[-1][0]
    return outputs


def lstm(x: np.ndarray, variables: Variables, **options: Any) -> np.ndarray:
    return repeat(x, lstm_step(variables), [6, 6], **options)


def forgetful_lstm(x: np.ndarray, variables: Variables) -> np.ndarray:
    return repeat(x, lstm_step(variables, forget_bias=0.0), [6, 6])


def gru(x: np.ndarray, variables: Variables, **options: Any) -> np.ndarray:
    return repeat(x, gru_step(variables), [6], **options)


def stack(x: np.ndarray, variables: Variables, **options: Any) -> np.ndarray:
    x = repeat(x, lstm_step(variables, f"multi_rnn_cell/cell_0/{BASIC}"), [6, 6], **options)
    return repeat(x, gru_step(variables, "multi_rnn_cell/cell_1/gru_cell/"), [3], **options)


def bidirectional(x: np.ndarray, variables: Variables, **options: Any) -> np.ndarray:
    forward = repeat(x, lstm_step(variables, f"fw/{BASIC}"), [6, 6], **options)
    back = repeat(x, gru_step(variables, "bw/gru_cell/"), [3], back=True, **options)
    return np.concatenate([forward, back], 2)


def scoped(scope: str, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{scope}/{name}" for name in names)


STACK = MultiRNNCell([LSTMCell(6), GRUCell(3)])
STACK_VARIABLES = (
    *scoped("multi_rnn_cell/cell_0", LSTM_VARIABLES),
    *scoped("multi_rnn_cell/cell_1", GRU_VARIABLES),
)
BOTH = {"forward_cell": LSTMCell(6), "backward_cell": GRUCell(3)}
BOTH_VARIABLES = (*scoped("fw", LSTM_VARIABLES), *scoped("bw", GRU_VARIABLES))
FORGETFUL = {"units": 6, "forget_bias": 0.0}

# Lengths belong to a batch, so they are not among these options.
CASES = [
    LayerCase(BidirectionalRNN, BOTH, BOTH_VARIABLES, SHAPE, reference=bidirectional),
    LayerCase(GRU, {"units": 6}, GRU_VARIABLES, SHAPE, reference=gru),
    LayerCase(LSTM, {"units": 6}, LSTM_VARIABLES, SHAPE, reference=lstm),
    LayerCase(LSTM, FORGETFUL, LSTM_VARIABLES, SHAPE, reference=forgetful_lstm, label="forgetful"),
    LayerCase(RNN, {"cell": STACK}, STACK_VARIABLES, SHAPE, reference=stack),
]
