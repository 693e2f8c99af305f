"""The tower context: the properties of one replica of a model."""

from ._keras_in_towers import adapting_keras

__all__ = ["adapting_keras"]
