"""Writes files: atomically, line by line, and in the background."""

from ._atomic_write import atomic_write, replace_directory, sync, write_archive
from ._line_file import (
    ENVIRONMENT,
    EXPLANATION,
    LOG,
    RUN_RECORD,
    BackgroundJob,
    BackgroundWriter,
    Batches,
    LineFile,
    cut_lines_after,
    cut_pictures_after,
    encode_png,
    find_pictures,
    prepare_lines,
    write_picture,
)

__all__ = [
    "ENVIRONMENT",
    "EXPLANATION",
    "LOG",
    "RUN_RECORD",
    "BackgroundJob",
    "BackgroundWriter",
    "Batches",
    "LineFile",
    "atomic_write",
    "cut_lines_after",
    "cut_pictures_after",
    "encode_png",
    "find_pictures",
    "prepare_lines",
    "replace_directory",
    "sync",
    "write_archive",
    "write_picture",
]
