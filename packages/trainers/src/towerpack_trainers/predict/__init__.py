"""Prediction with a trained model, without a trainer."""

from ._offline_predictor import OfflinePredictor, PredictConfig

__all__ = ["OfflinePredictor", "PredictConfig"]
