"""The handshake of two processes. Each proves its knowledge of the cluster's token, which is never sent.

```
chief   {"challenge": c}                                       after the connection is made
caller  {"rank", "size", "purpose", "cluster", "nonce": n, "proof": HMAC of "caller", c and all of this}
chief   {"welcome": true, "proof": HMAC of "chief", c and n}   or {"refused": the reason}
caller  "joined"                                               unless the caller has given up
```
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Sequence
from typing import Any, final

import attrs

from .._distributed_errors import RendezvousError
from ..cluster import TOKEN_VARIABLE

__all__ = ["LARGEST_HELLO", "PURPOSES", "Handshake"]

# The largest message, in bytes, from an unauthenticated process.
LARGEST_HELLO = 1 << 16
PURPOSES = ("control", "heartbeat")


@final
@attrs.frozen
class Handshake:
    """The shared facts of a cluster's processes before they connect. Pure.

    Attributes:
        names: the name of each rank in errors.
        fingerprint: a string that is equal in all processes of this cluster.
        token: their shared secret; empty if they accept any caller.
    """

    names: Sequence[str]
    fingerprint: str
    token: str = attrs.field(default="", repr=False)

    JOINED = "joined"

    def challenge(self) -> dict[str, Any]:
        """Returns the chief's first message: a random number that is used once."""
        return {"challenge": secrets.token_hex(16)}

    def hello(self, challenge: Any, rank: int, purpose: str) -> dict[str, Any]:
        """Returns the caller's answer to a challenge.

        Raises:
            ValueError: the message is not a challenge.
        """
        if not isinstance(challenge, dict) or not isinstance(challenge.get("challenge"), str):
            raise ValueError(f"received {_excerpt(challenge)} instead of a challenge")
        said = {
            "rank": rank,
            "size": len(self.names),
            "purpose": purpose,
            "cluster": self.fingerprint,
            "nonce": secrets.token_hex(16),
        }
        return {**said, "proof": self._proof("caller", challenge["challenge"], said)}

    def refusal(self, challenge: dict[str, Any], hello: Any) -> str | None:
        """Returns the chief's reason to refuse a caller; None if the caller belongs to the cluster."""
        if not isinstance(hello, dict) or not isinstance(hello.get("proof"), str):
            return "this call is invalid; do all processes run the same version of towerpack-trainers?"
        said = {key: value for key, value in hello.items() if key != "proof"}
        if not _equal(hello["proof"], self._proof("caller", challenge["challenge"], said)):
            return (
                f"its token is not the chief's, which has {'one' if self.token else 'none'}. "
                f"{TOKEN_VARIABLE} must have the same value in all processes, or in none."
            )
        size, rank = len(self.names), said.get("rank")
        if said.get("cluster") != self.fingerprint or said.get("size") != size:
            return (
                f"it has another cluster: {said.get('size')} processes instead of the chief's {size}, or "
                "other addresses. Give all processes the same cluster, in the same order."
            )
        if said.get("purpose") not in PURPOSES or not isinstance(said.get("nonce"), str):
            return "this call is invalid; do all processes run the same version of towerpack-trainers?"
        if type(rank) is not int or not 0 < rank < size:
            return f"there is no rank {rank} besides the chief in a cluster of {size}."
        return None

    def welcome(self, challenge: dict[str, Any], hello: dict[str, Any]) -> dict[str, Any]:
        """Returns the chief's answer to an accepted hello."""
        return {"welcome": True, "proof": self._proof("chief", challenge["challenge"], hello["nonce"])}

    def check_answer(self, challenge: dict[str, Any], hello: dict[str, Any], answer: Any) -> None:
        """Checks the chief's answer to a hello.

        Raises:
            RendezvousError: the chief refuses this process, or does not prove its knowledge of the token.
            ValueError: the message is not an answer.
        """
        if not isinstance(answer, dict) or not ("refused" in answer or "proof" in answer):
            raise ValueError(f"received {_excerpt(answer)} instead of an answer")
        if "refused" in answer:
            raise RendezvousError(f"{self.names[0]} refused this process: {str(answer['refused'])[:1000]}")
        if not _equal(str(answer["proof"]), self.welcome(challenge, hello)["proof"]):
            raise RendezvousError(
                f"The process that answers at the address of {self.names[0]} does not have the token of this "
                f"cluster. {TOKEN_VARIABLE} must have the same value in all processes."
            )

    def _proof(self, role: str, challenge: str, said: Any) -> str:
        text = json.dumps([role, challenge, said], sort_keys=True)
        return hmac.new(os.fsencode(self.token), text.encode(), hashlib.sha256).hexdigest()


def _equal(received: str, expected: str) -> bool:
    return hmac.compare_digest(received.encode(errors="replace"), expected.encode())


def _excerpt(message: Any) -> str:
    return repr(message)[:60]
