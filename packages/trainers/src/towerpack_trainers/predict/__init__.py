"""Prediction with a trained model, without a trainer."""

from ._offline_predictor import OfflinePredictor
from ._predict_config import PredictConfig

__all__ = ["OfflinePredictor", "PredictConfig"]
