"""Planned passes: groups of datapoints and the order of flows, computed before anything is read."""

from ._batch_by_budget import BatchByBudget
from ._bucket_data import BucketData
from ._mix_data import MixData
from ._pack_data import PackData
from ._skip_data import SkipData
from ._substitute_data import SubstituteData

__all__ = ["BatchByBudget", "BucketData", "MixData", "PackData", "SkipData", "SubstituteData"]
