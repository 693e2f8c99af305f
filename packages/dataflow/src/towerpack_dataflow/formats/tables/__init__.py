"""Tables with typed columns: Parquet and Arrow, row by row."""

from ._arrow_data import ArrowData, ArrowSerializer, arrow_version
from ._chunked_rows import ChunkShuffle
from ._parquet_data import ParquetData, ParquetSerializer, parquet_version

__all__ = [
    "ArrowData",
    "ArrowSerializer",
    "ChunkShuffle",
    "ParquetData",
    "ParquetSerializer",
    "arrow_version",
    "parquet_version",
]
