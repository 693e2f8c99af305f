"""Stepping of vector environments for agents: all autoreset modes, groups, episodes, exact states."""

from ._environment_state import state_of
from ._finished_episodes import Episode, FinishedEpisodes
from ._grouped_steps import GroupedSteps
from ._vector_steps import Transitions, VectorSteps

__all__ = ["Episode", "FinishedEpisodes", "GroupedSteps", "Transitions", "VectorSteps", "state_of"]
