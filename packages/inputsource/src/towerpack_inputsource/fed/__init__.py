"""Sources that are fed with each session call."""

from ._feed_input import FeedInput
from ._placeholder_input import PlaceholderInput, placeholder_for

__all__ = ["FeedInput", "PlaceholderInput", "placeholder_for"]
