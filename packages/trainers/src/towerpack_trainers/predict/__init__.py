"""Prediction with a trained model: from arrays, over flows, on several devices, for many threads."""

from ._async_predictor import MultiThreadAsyncPredictor
from ._dataset_predictor import SimpleDatasetPredictor
from ._feedfree_predictor import FeedfreePredictor
from ._offline_predictor import OfflinePredictor
from ._parallel_predictors import DataParallelOfflinePredictor, MultiTowerOfflinePredictor
from ._predict_config import PredictConfig
from ._process_dataset_predictor import MultiProcessDatasetPredictor

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
