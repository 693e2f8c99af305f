"""The secret by which the processes of a training know one another."""

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
    """Returns a new token, which cannot be guessed."""
    return secrets.token_hex(16)


def resolve_token(token: str | None, hosts: Iterable[str]) -> str:
    """Returns the token of a cluster: the given one, else that of the environment.

    Args:
        token: the token, if the caller has one.
        hosts: the host of each process. Among processes of one host, all of which call it by a loopback
            address, there need not be a token.

    Returns:
        The token; empty if there is none.

    Raises:
        ClusterError: there is none and there has to be, or the token is too short.
    """
    source = f"{TOKEN_VARIABLE} in the environment" if token is None else "token="
    chosen = (os.environ.get(TOKEN_VARIABLE, "") if token is None else token).strip()
    if chosen and len(chosen) < _SHORTEST:
        raise ClusterError(
            f"{source} has {len(chosen)} characters: expected at least {_SHORTEST}, which cannot be guessed. "
            "`openssl rand -hex 16` makes one."
        )
    remote = next((host for host in hosts if not is_loopback(host)), None)
    if not chosen and remote is not None:
        raise ClusterError(
            f"These processes meet over a network (one of them is at {remote!r}), where others could join "
            f"in their place. Set {TOKEN_VARIABLE} in the environment of all of them to the same secret, "
            "such as the output of one `openssl rand -hex 16`; or give the communicator token=."
        )
    return chosen


def is_loopback(host: str) -> bool:
    """Returns whether a host's name or address can only mean this host itself.

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
