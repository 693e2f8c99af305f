"""Planned passes: which datapoints make a batch, and which flow comes next, known before anything is read."""

from ._batch_by_budget import BatchByBudget
from ._bucket_data import BucketData
from ._pack_data import PackData
from ._planned_flow import PlannedFlow

__all__ = ["BatchByBudget", "BucketData", "PackData", "PlannedFlow"]
