"""Flows between machines: messages of msgpack and arrays, over ZeroMQ; needs the extra `[remote]`."""

try:
    import msgpack as _msgpack  # noqa: F401
    import zmq as _zmq  # noqa: F401
except ImportError as error:
    raise ImportError(
        "towerpack_dataflow.remote needs pyzmq and msgpack: pip install 'towerpack-dataflow[remote]'"
    ) from error

from ._messages import MAX_MESSAGE_BYTES, MESSAGE_VERSION, pack_message, unpack_message

__all__ = ["MAX_MESSAGE_BYTES", "MESSAGE_VERSION", "pack_message", "unpack_message"]
