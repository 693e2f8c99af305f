"""The data of agents in vector environments: rollouts, memories of transitions, states of environments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from towerpack_dataflow.envs import VectorEnvState
    from towerpack_dataflow.replay import ReplayBuffer, RolloutBuffer

__all__ = ["memory_for", "rollout_for", "state_for"]


def rollout_for(envs: Any, **options: Any) -> RolloutBuffer:
    """Returns an empty rollout for vector environments.

    Args:
        envs: a `gymnasium.vector.VectorEnv`.
        options: further arguments of `towerpack_dataflow.replay.RolloutBuffer`, such as `steps`.
    """
    from towerpack_dataflow.replay import RolloutBuffer

    spaces = envs.single_observation_space, envs.single_action_space
    return RolloutBuffer(*spaces, environments=envs.num_envs, **options)


def memory_for(envs: Any, capacity: int, *, seed: int | None = None, **options: Any) -> ReplayBuffer:
    """Returns an empty memory for vector environments, sampled uniformly.

    Args:
        envs: a `gymnasium.vector.VectorEnv`. With `frame_stack`, the first axis of its observations is that
            of the frames.
        capacity: the maximum number of transitions.
        seed: the seed of sampling.
        options: further arguments of `towerpack_dataflow.replay.ReplayBuffer`, such as `n_step`.
    """
    from towerpack_dataflow.replay import ReplayBuffer, UniformSampling

    observation: Any = envs.single_observation_space
    if options.get("frame_stack", 1) > 1:
        observation = observation.shape[1:], observation.dtype
    sampling = UniformSampling(seed=seed)
    return ReplayBuffer(observation, envs.single_action_space, capacity, sampling=sampling, **options)


def state_for(envs: Any) -> VectorEnvState:
    """Returns the state of vector environments, for exact resume."""
    from towerpack_dataflow.envs import VectorEnvState

    return VectorEnvState(envs)
