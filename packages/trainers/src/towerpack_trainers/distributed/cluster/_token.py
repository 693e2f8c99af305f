"""The secret that authenticates the processes of a training to each other."""

from __future__ import annotations

import ipaddress
import os
import secrets
from collections.abc import Iterable

from .._distributed_errors import ClusterError

__all__ = ["TOKEN_VARIABLE", "is_loopback", "make_token", "resolve_token"]

TOKEN_VARIABLE = "TOWERPACK_TOKEN"
_SHORTEST = 16


def make_token() -> str:
    """Returns a new random token, which cannot be guessed."""
    return secrets.token_hex(16)


def resolve_token(token: str | None, hosts: Iterable[str]) -> str:
    """Returns the token of a cluster: the given one, else that of the environment.

    Args:
        token: the token, if the caller has one.
        hosts: the host of each process. If all are loopback addresses, a token is optional.

    Returns:
        The token; empty if there is none.

    Raises:
        ClusterError: a required token is missing, or the token is too short.
    """
    source = f"{TOKEN_VARIABLE} in the environment" if token is None else "token="
    chosen = (os.environ.get(TOKEN_VARIABLE, "") if token is None else token).strip()
    if chosen and len(chosen) < _SHORTEST:
        raise ClusterError(
            f"{source} has {len(chosen)} characters; expected at least {_SHORTEST}, so that it cannot be "
            "guessed. Make one with `openssl rand -hex 16`."
        )
    remote = next((host for host in hosts if not is_loopback(host)), None)
    if not chosen and remote is not None:
        raise ClusterError(
            f"These processes connect over a network (one of them is at {remote!r}), where strangers could "
            f"connect as well. Set {TOKEN_VARIABLE} in the environment of all of them to the same secret, "
            "such as the output of one `openssl rand -hex 16`; or pass token= to the communicator."
        )
    return chosen


def is_loopback(host: str) -> bool:
    """Returns whether a host name or address always refers to the local host.

    Example:
        >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("10.0.0.1")
        (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
