"""The mutual authentication of two processes before they train together."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towerpack_trainers.distributed import RendezvousError
from towerpack_trainers.distributed.group import Handshake

NAMES = ["rank 0", "rank 1", "rank 2"]
TOKEN = "a secret of sixteen characters"
PROPER = Handshake(NAMES, "of these", TOKEN)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.integers(1, 2), st.sampled_from(["control", "heartbeat"]))
def test_both_sides_prove_their_membership(rank, purpose):
    challenge = PROPER.challenge()
    hello = PROPER.hello(challenge, rank, purpose)
    assert PROPER.refusal(challenge, hello) is None
    PROPER.check_answer(challenge, hello, PROPER.welcome(challenge, hello))


@given(st.sampled_from(["rank", "size", "purpose", "cluster", "nonce", "proof"]), JSON)
def test_nothing_of_a_hello_can_be_changed(field, value):
    challenge = PROPER.challenge()
    hello = PROPER.hello(challenge, 1, "control")
    changed = {**hello, field: value}
    assert (PROPER.refusal(challenge, changed) is None) == (json.dumps(changed) == json.dumps(hello))


@given(JSON)
def test_any_other_message_is_refused(message):
    assert PROPER.refusal(PROPER.challenge(), message) is not None


def test_a_hello_is_valid_for_one_call():
    hello = PROPER.hello(PROPER.challenge(), 1, "control")
    assert "its token is not the chief's" in PROPER.refusal(PROPER.challenge(), hello)


def test_an_answer_is_valid_for_one_call():
    challenge = PROPER.challenge()
    one, other = (PROPER.hello(challenge, 1, "control") for _ in range(2))
    with pytest.raises(RendezvousError, match="does not have the token"):
        PROPER.check_answer(challenge, one, PROPER.welcome(challenge, other))


def test_the_token_is_neither_sent_nor_shown():
    challenge = PROPER.challenge()
    hello = PROPER.hello(challenge, 1, "control")
    said = json.dumps([challenge, hello, PROPER.welcome(challenge, hello)]) + repr(PROPER)
    assert TOKEN not in said
    assert TOKEN.encode().hex() not in said


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"fingerprint": "of others"},
            "it has another cluster: 3 processes instead of the chief's 3, or other",
        ),
        ({"names": NAMES[:2]}, "it has another cluster: 2 processes instead of the chief's 3"),
    ],
)
def test_other_clusters(changes, message):
    caller = Handshake(**{"names": NAMES, "fingerprint": "of these", "token": TOKEN, **changes})
    challenge = PROPER.challenge()
    assert PROPER.refusal(challenge, caller.hello(challenge, 1, "control")).startswith(message)


@pytest.mark.parametrize("rank", [0, 3, -1, True, 1.0, "1", None])
def test_other_ranks(rank):
    challenge = PROPER.challenge()
    refusal = PROPER.refusal(challenge, PROPER.hello(challenge, rank, "control"))
    assert refusal == f"there is no rank {rank} besides the chief in a cluster of 3."


@pytest.mark.parametrize("answer", [5, [], {}, {"welcome": True}, None])
def test_invalid_answers(answer):
    challenge = PROPER.challenge()
    with pytest.raises(ValueError, match="instead of an answer"):
        PROPER.check_answer(challenge, PROPER.hello(challenge, 1, "control"), answer)


@pytest.mark.parametrize("challenge", [5, [], {}, {"challenge": 7}])
def test_invalid_challenges(challenge):
    with pytest.raises(ValueError, match="instead of a challenge"):
        PROPER.hello(challenge, 1, "control")
