"""The group of processes in one training: rendezvous, agreement, and detection of lost processes."""

from ._connection import Connection, Handshake, connect, encode, listen
from ._heartbeat import Progress
from ._process_group import ProcessGroup, check_times, join_cluster
from ._rendezvous import Connections, call_chief, receive_calls

__all__ = [
    "Connection",
    "Connections",
    "Handshake",
    "ProcessGroup",
    "Progress",
    "call_chief",
    "check_times",
    "connect",
    "encode",
    "join_cluster",
    "listen",
    "receive_calls",
]
