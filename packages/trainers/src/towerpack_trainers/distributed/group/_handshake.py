"""What two processes say when they meet: each proves that it knows the cluster's token, which never travels.

```
chief   {"challenge": c}                                       as soon as somebody has connected
caller  {"rank", "size", "purpose", "cluster", "nonce": n, "proof": HMAC of "caller", c and all of this}
chief   {"welcome": true, "proof": HMAC of "chief", c and n}   or {"refused": the reason}
caller  "joined"                                               which a caller that has given up does not say
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

# Bytes of a message from somebody who may be a stranger.
LARGEST_HELLO = 1 << 16
PURPOSES = ("control", "heartbeat")


@final
@attrs.frozen
class Handshake:
    """What the processes of a cluster know of one another before they meet. Pure.

    Attributes:
        names: the name of each rank in errors.
        fingerprint: a string that all processes of this cluster have in common.
        token: a secret of theirs; empty if they trust whoever calls.
    """

    names: Sequence[str]
    fingerprint: str
    token: str = attrs.field(default="", repr=False)

    JOINED = "joined"

    def challenge(self) -> dict[str, Any]:
        """Returns what the chief says first: a number used once."""
        return {"challenge": secrets.token_hex(16)}

    def hello(self, challenge: Any, rank: int, purpose: str) -> dict[str, Any]:
        """Returns the caller's answer to a challenge.

        Raises:
            ValueError: it is no challenge.
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
        """Returns why the chief refuses a caller; None if it belongs to the cluster."""
        if not isinstance(hello, dict) or not isinstance(hello.get("proof"), str):
            return "this call is not understood; do all processes run the same version of towerpack-trainers?"
        said = {key: value for key, value in hello.items() if key != "proof"}
        if not _equal(hello["proof"], self._proof("caller", challenge["challenge"], said)):
            return (
                f"its token is not the chief's, which has {'one' if self.token else 'none'}. "
                f"{TOKEN_VARIABLE} must have the same value in all processes, or in none."
            )
        size, rank = len(self.names), said.get("rank")
        if said.get("cluster") != self.fingerprint or said.get("size") != size:
            return (
                f"it has another cluster: {said.get('size')} processes where the chief has {size}, or "
                "other addresses. All processes must be given the same cluster, in the same order."
            )
        if said.get("purpose") not in PURPOSES or not isinstance(said.get("nonce"), str):
            return "this call is not understood; do all processes run the same version of towerpack-trainers?"
        if type(rank) is not int or not 0 < rank < size:
            return f"there is no rank {rank} besides the chief in a cluster of {size}."
        return None

    def welcome(self, challenge: dict[str, Any], hello: dict[str, Any]) -> dict[str, Any]:
        """Returns the chief's answer to a hello that it does not refuse."""
        return {"welcome": True, "proof": self._proof("chief", challenge["challenge"], hello["nonce"])}

    def check_answer(self, challenge: dict[str, Any], hello: dict[str, Any], answer: Any) -> None:
        """Checks the chief's answer to a hello.

        Raises:
            RendezvousError: the chief refuses this process, or does not prove that it knows the token.
            ValueError: it is no answer.
        """
        if not isinstance(answer, dict) or not ("refused" in answer or "proof" in answer):
            raise ValueError(f"received {_excerpt(answer)} instead of an answer")
        if "refused" in answer:
            raise RendezvousError(f"{self.names[0]} refused this process: {str(answer['refused'])[:1000]}")
        if not _equal(str(answer["proof"]), self.welcome(challenge, hello)["proof"]):
            raise RendezvousError(
                f"Whoever answers at the address of {self.names[0]} does not know the token of this cluster. "
                f"{TOKEN_VARIABLE} must have the same value in all processes."
            )

    def _proof(self, role: str, challenge: str, said: Any) -> str:
        text = json.dumps([role, challenge, said], sort_keys=True)
        return hmac.new(os.fsencode(self.token), text.encode(), hashlib.sha256).hexdigest()


def _equal(received: str, expected: str) -> bool:
    return hmac.compare_digest(received.encode(errors="replace"), expected.encode())


def _excerpt(message: Any) -> str:
    return repr(message)[:60]
