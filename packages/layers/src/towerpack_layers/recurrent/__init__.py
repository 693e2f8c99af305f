"""Recurrent layers and their cells."""

from ._gru_cell import GRUCell
from ._lstm_cell import LSTMCell, LSTMState
from ._multi_rnn_cell import MultiRNNCell
from ._rnn import RNN, BidirectionalRNN
from ._rnn_cell import RNNCell
from ._rnn_of_units import GRU, LSTM

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
