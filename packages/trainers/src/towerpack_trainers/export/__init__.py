"""Exports of a trained model to the file formats of other programs."""

from ._model_exporter import ModelExporter

__all__ = ["ModelExporter"]
