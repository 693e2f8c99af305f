"""Writes files: atomically, line by line, and in the background."""

from ._archive import write_archive
from ._atomic_write import atomic_write, sync
from ._background_writer import BackgroundJob, BackgroundWriter, Batches
from ._line_file import LineFile, cut_lines_after, free_name, prepare_lines
from ._pictures import PNG_CHANNELS, cut_pictures_after, encode_png, find_pictures, write_picture
from ._replace_directory import replace_directory
from ._run_files import ENVIRONMENT, EXPLANATION, LOG, RUN_RECORD, RUN_RECORD_FORMAT

__all__ = [
    "ENVIRONMENT",
    "EXPLANATION",
    "LOG",
    "PNG_CHANNELS",
    "RUN_RECORD",
    "RUN_RECORD_FORMAT",
    "BackgroundJob",
    "BackgroundWriter",
    "Batches",
    "LineFile",
    "atomic_write",
    "cut_lines_after",
    "cut_pictures_after",
    "encode_png",
    "find_pictures",
    "free_name",
    "prepare_lines",
    "replace_directory",
    "sync",
    "write_archive",
    "write_picture",
]
