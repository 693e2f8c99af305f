"""Environments in processes that request actions from a master at their own speed; needs `[gym,remote]`."""

try:
    import msgpack as _msgpack  # noqa: F401
    import zmq as _zmq  # noqa: F401
except ImportError as error:
    raise ImportError(
        "towerpack_dataflow.envs.simulators needs pyzmq and msgpack: "
        "pip install 'towerpack-dataflow[gym,remote]'"
    ) from error

from ._simulator_exchange import SimulatorHooks
from ._simulator_master import SimulatorMaster
from ._simulator_messages import SimulatorEpisode, SimulatorStates
from ._simulator_process import SimulatorProcess

__all__ = ["SimulatorEpisode", "SimulatorHooks", "SimulatorMaster", "SimulatorProcess", "SimulatorStates"]
