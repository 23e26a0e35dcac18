"""PyTorch's path of the layers that round their inputs as they come: here the same classes, with that setting."""

from __future__ import annotations

from .layers import GRU, LSTM, Conv1d, Conv2d, Conv3d, GRUCell, Linear, LSTMCell, RNNCell

__all__ = ["GRU", "LSTM", "Conv1d", "Conv2d", "Conv3d", "GRUCell", "LSTMCell", "Linear", "RNNCell"]
