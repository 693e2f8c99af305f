"""Recurrent layers and their cells."""

from ._gated_cells import GRUCell, LSTMCell, LSTMState
from ._rnn import GRU, LSTM, RNN, BidirectionalRNN
from ._rnn_cell import MultiRNNCell, RNNCell

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "BidirectionalRNN",
    "GRUCell",
    "LSTMCell",
    "LSTMState",
    "MultiRNNCell",
    "RNNCell",
]
