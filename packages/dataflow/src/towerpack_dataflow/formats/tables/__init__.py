"""Tables in files: Parquet, Arrow, CSV, lines of JSON, SVMLight; row by row."""

from ._arrow_data import ArrowData
from ._arrow_serializer import ArrowSerializer, arrow_version
from ._chunk_shuffle import ChunkShuffle
from ._csv_data import CSVData, CSVSerializer, index_csv
from ._jsonl_data import JSONLData, JSONLSerializer, index_jsonl
from ._parquet_data import ParquetData
from ._parquet_serializer import ParquetSerializer, parquet_version
from ._svmlight_data import SVMLightData

__all__ = [
    "ArrowData",
    "ArrowSerializer",
    "CSVData",
    "CSVSerializer",
    "ChunkShuffle",
    "JSONLData",
    "JSONLSerializer",
    "ParquetData",
    "ParquetSerializer",
    "SVMLightData",
    "arrow_version",
    "index_csv",
    "index_jsonl",
    "parquet_version",
]
