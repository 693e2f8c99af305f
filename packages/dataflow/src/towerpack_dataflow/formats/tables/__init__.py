"""Tables with typed columns: Parquet and Arrow, row by row."""

from ._arrow_data import ArrowData
from ._arrow_serializer import ArrowSerializer, arrow_version
from ._chunked_rows import ChunkShuffle
from ._parquet_data import ParquetData
from ._parquet_serializer import ParquetSerializer, parquet_version

__all__ = [
    "ArrowData",
    "ArrowSerializer",
    "ChunkShuffle",
    "ParquetData",
    "ParquetSerializer",
    "arrow_version",
    "parquet_version",
]
