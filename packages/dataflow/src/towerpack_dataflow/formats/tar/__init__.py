"""Tar files of samples in the format of WebDataset, read in any order by an index."""

from ._tar_data import TarData
from ._write_tar import index_tar, write_tar, write_tar_shards

__all__ = ["TarData", "index_tar", "write_tar", "write_tar_shards"]
