"""Other libraries inside a tower function: what they leave undone in a graph, done for them."""

from ._enable_slim import enable_slim
from ._use_keras import KerasFunction, use_keras

__all__ = ["KerasFunction", "enable_slim", "use_keras"]
