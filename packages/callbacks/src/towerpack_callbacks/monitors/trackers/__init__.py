"""Monitors that send statistics to experiment trackers."""

from ._comet import CometMonitor
from ._mlflow import MLflowMonitor
from ._tracker import Tracker
from ._wandb import WandbMonitor

__all__ = ["CometMonitor", "MLflowMonitor", "Tracker", "WandbMonitor"]
