"""Exports of a trained model to the files of other programs."""

from ._model_exporter import ModelExporter

__all__ = ["ModelExporter"]
