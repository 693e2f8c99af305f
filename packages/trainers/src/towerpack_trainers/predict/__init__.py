"""A trained model without a trainer."""

from ._offline import OfflinePredictor, PredictConfig

__all__ = ["OfflinePredictor", "PredictConfig"]
