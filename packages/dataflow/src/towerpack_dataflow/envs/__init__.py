"""Gymnasium environments in worker processes, with exact states; needs the extra `[gym]`."""

try:
    import gymnasium as _gymnasium  # noqa: F401
except ImportError as error:
    raise ImportError(
        "towerpack_dataflow.envs needs gymnasium: pip install 'towerpack-dataflow[gym]'"
    ) from error

from ._episodes import episode_seed
from ._process_vector_env import ProcessVectorEnv
from ._vector_env_state import VectorEnvState

__all__ = ["ProcessVectorEnv", "VectorEnvState", "episode_seed"]
