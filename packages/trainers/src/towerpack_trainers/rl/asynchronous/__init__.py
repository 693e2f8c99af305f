"""Asynchronous actors and a learner that hardly wait for each other: trajectories of older policies."""

from ._batch_a3c_trainer import BatchA3CTrainer
from ._simulators import Simulators
from ._trajectories import TrajectoryFlow, Unroll
from ._v_trace import VTrace, v_trace
from ._v_trace_objective import VTraceObjective

__all__ = [
    "BatchA3CTrainer",
    "Simulators",
    "TrajectoryFlow",
    "Unroll",
    "VTrace",
    "VTraceObjective",
    "v_trace",
]
