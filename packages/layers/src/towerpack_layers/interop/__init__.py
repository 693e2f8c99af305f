"""Adapters that make Keras and tf_slim work inside tower functions."""

from ._enable_slim import enable_slim
from ._use_keras import KerasFunction, use_keras

__all__ = ["KerasFunction", "enable_slim", "use_keras"]
