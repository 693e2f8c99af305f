"""Workers as actors on a Ray cluster."""

from ._ray_runner import RayRunner

__all__ = ["RayRunner"]
