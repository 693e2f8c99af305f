"""`tensorpack.predict`."""

from ..training._online_predictor import OnlinePredictor, PredictorBase
from ._dataset import (
    DatasetPredictorBase,
    MultiProcessDatasetPredictor,
    MultiProcessPredictWorker,
    MultiProcessQueuePredictWorker,
    SimpleDatasetPredictor,
)
from ._offline import (
    DataParallelOfflinePredictor,
    FeedfreePredictor,
    MultiTowerOfflinePredictor,
    OfflinePredictor,
    PredictConfig,
)
from ._threads import AsyncPredictorBase, MultiThreadAsyncPredictor

__all__ = [
    "AsyncPredictorBase",
    "DataParallelOfflinePredictor",
    "DatasetPredictorBase",
    "FeedfreePredictor",
    "MultiProcessDatasetPredictor",
    "MultiProcessPredictWorker",
    "MultiProcessQueuePredictWorker",
    "MultiThreadAsyncPredictor",
    "MultiTowerOfflinePredictor",
    "OfflinePredictor",
    "OnlinePredictor",
    "PredictConfig",
    "PredictorBase",
    "SimpleDatasetPredictor",
]
