"""Tables in text files: CSV, JSON Lines, SVMLight; row by row."""

from ._csv_data import CSVData, CSVSerializer, index_csv
from ._jsonl_data import JSONLData, JSONLSerializer, index_jsonl
from ._svmlight_data import SVMLightData

__all__ = [
    "CSVData",
    "CSVSerializer",
    "JSONLData",
    "JSONLSerializer",
    "SVMLightData",
    "index_csv",
    "index_jsonl",
]
