"""The group of processes in one training: rendezvous, agreement, and detection of lost processes."""

from ._connection import Connection, Handshake, connect, encode, listen
from ._process_group import ProcessGroup, join_cluster
from ._rendezvous import Connections, call_chief, receive_calls

__all__ = [
    "Connection",
    "Connections",
    "Handshake",
    "ProcessGroup",
    "call_chief",
    "connect",
    "encode",
    "join_cluster",
    "listen",
    "receive_calls",
]
