"""Each datapoint of a pass is handed out once, while receivers join and leave."""

from hypothesis import given
from hypothesis import strategies as st

from towerpack_dataflow.remote._shard_server import Payload, ShardQueue

NAMES = ("a", "b", "c")
EVENTS = st.lists(
    st.tuples(st.sampled_from(("join", "take", "leave", "supply", "silent")), st.sampled_from(NAMES)),
    max_size=80,
)


def payloads(count):
    return [Payload(index, []) for index in range(count)]


def indices(passes):
    return [(name, payload.index) for name, payload in passes.assignments()]


@given(EVENTS, st.integers(0, 6), st.integers(1, 3))
def test_all_are_taken_once_in_any_course_of_events(events, count, credit):
    passes, supply, taken, held = ShardQueue(), payloads(count), [], {name: [] for name in NAMES}

    def assign():
        for name, payload in passes.assignments():
            held[name].append(payload.index)

    def take(name):
        passes.take(name, held[name])
        taken.extend(held[name])
        held[name].clear()

    def leave(name):
        passes.leave(name)
        held[name].clear()

    def do(event, name):
        if event == "join":
            passes.join(name, credit, 0.0)
        elif event == "take":
            take(name)
        elif event == "leave":
            leave(name)
        elif event == "silent":
            for silent in passes.silent_since(1.0):
                leave(silent)
        elif passes.wants_more() and supply:
            passes.supply(supply.pop(0))
        assign()
        assert all(len(held[name]) <= credit for name in NAMES)

    for event, name in events:
        do(event, name)
    passes.join("last", 100, 0.0)
    held["last"] = []
    assign()
    while supply:
        do("supply", "last")
    passes.end_supply()
    for name in held:
        take(name)
    assert "last" in passes.end_pass() and passes.number == 1
    assert sorted(taken) == list(range(count))


def test_a_receiver_holds_at_most_its_credit_and_the_one_with_the_fewest_is_first():
    passes = ShardQueue()
    passes.join("a", 2, 0.0)
    passes.join("b", 1, 0.0)
    for payload in payloads(5):
        passes.supply(payload)
    assert indices(passes) == [("a", 0), ("b", 1), ("a", 2)]
    passes.take("b", [1])
    assert indices(passes) == [("b", 3)]


def test_datapoints_of_a_lost_receiver_come_first_and_in_order():
    passes = ShardQueue()
    passes.join("a", 3, 0.0)
    for payload in payloads(5):
        passes.supply(payload)
    indices(passes)
    passes.take("a", [1])
    passes.leave("a")
    passes.join("b", 9, 0.0)
    assert indices(passes) == [("b", 0), ("b", 2), ("b", 3), ("b", 4)]


def test_an_empty_pass_waits_for_a_receiver():
    passes = ShardQueue()
    passes.end_supply()
    assert passes.end_pass() is None
    passes.join("a", 1, 0.0)
    assert passes.end_pass() == ["a"]
    assert passes.hear("a", 0.0) is None


def test_a_heartbeat_counts_sent_and_taken_datapoints():
    passes = ShardQueue()
    passes.join("a", 2, 0.0)
    for payload in payloads(2):
        passes.supply(payload)
    indices(passes)
    passes.take("a", [0, 7])
    assert passes.hear("a", 5.0, credit=3) == (2, 1)
    assert passes.silent_since(5.0) == [] and passes.silent_since(6.0) == ["a"]
