"""Operators over several flows: concatenate, join, mix."""

from ._concat_data import ConcatData
from ._join_data import JoinData, ZipData
from ._random_choose import RandomChooseData
from ._random_mix import RandomMixData

__all__ = ["ConcatData", "JoinData", "RandomChooseData", "RandomMixData", "ZipData"]
