"""The processes of one training: how they meet, agree, and notice that one is lost."""

from ._connection import Connection, connect, listen
from ._heartbeat import Progress
from ._process_group import ProcessGroup, check_times, join_cluster
from ._rendezvous import Connections, call_chief, receive_calls

__all__ = [
    "Connection",
    "Connections",
    "ProcessGroup",
    "Progress",
    "call_chief",
    "check_times",
    "connect",
    "join_cluster",
    "listen",
    "receive_calls",
]
