"""Prediction with a trained model: from arrays, over flows, on several devices, for many threads."""

from ._async_predictor import MultiThreadAsyncPredictor
from ._dataset_predictor import FeedfreePredictor, SimpleDatasetPredictor
from ._offline_predictor import DataParallelOfflinePredictor, MultiTowerOfflinePredictor, OfflinePredictor
from ._predict_config import PredictConfig
from ._predict_processes import MultiProcessDatasetPredictor

__all__ = [
    "DataParallelOfflinePredictor",
    "FeedfreePredictor",
    "MultiProcessDatasetPredictor",
    "MultiThreadAsyncPredictor",
    "MultiTowerOfflinePredictor",
    "OfflinePredictor",
    "PredictConfig",
    "SimpleDatasetPredictor",
]
