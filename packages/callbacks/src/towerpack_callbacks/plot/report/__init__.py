"""Reports one run on one page: curves, use of time, configuration, and checkpoints to resume from."""

from ._event_images import EmbeddedImage, find_event_images
from ._goodput import Goodput, Stretch, measure_goodput
from ._read_record import Event, Segment, read_record
from ._report_page import write_report

__all__ = [
    "EmbeddedImage",
    "Event",
    "Goodput",
    "Segment",
    "Stretch",
    "find_event_images",
    "measure_goodput",
    "read_record",
    "write_report",
]
