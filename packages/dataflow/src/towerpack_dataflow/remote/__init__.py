"""Flows between machines: messages of msgpack and arrays, over ZeroMQ; needs the extra `[remote]`."""

try:
    import msgpack as _msgpack  # noqa: F401
    import zmq as _zmq  # noqa: F401
except ImportError as error:
    raise ImportError(
        "towerpack_dataflow.remote needs pyzmq and msgpack: pip install 'towerpack-dataflow[remote]'"
    ) from error

from ..formats.encoding._messages import pack_message, unpack_message
from ._link import CurveKeys
from ._remote_data import RemoteDataZMQ
from ._sender import DataFlowSender, send_dataflow_zmq

__all__ = [
    "CurveKeys",
    "DataFlowSender",
    "RemoteDataZMQ",
    "pack_message",
    "send_dataflow_zmq",
    "unpack_message",
]
