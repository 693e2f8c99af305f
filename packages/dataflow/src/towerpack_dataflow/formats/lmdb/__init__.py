"""LMDB files, those of Tensorpack and Caffe included; needs the extra `[lmdb]`."""

from ._caffe_lmdb import CaffeLMDB
from ._lmdb_data import LMDBData, LMDBDataDecoder, LMDBSerializer

__all__ = ["CaffeLMDB", "LMDBData", "LMDBDataDecoder", "LMDBSerializer"]
