import numpy as np
import pytest

from towerpack_dataflow import ArgumentTypeError, DataFromList
from towerpack_dataflow.testing import check_dataflow

FLOWS = {
    "list": lambda: DataFromList([[i, str(i)] for i in range(11)]),
    "list in order": lambda: DataFromList([[i] for i in range(11)], shuffle=False),
    "dicts": lambda: DataFromList([{"a": i} for i in range(300)]),
    "empty": lambda: DataFromList([]),
    "array": lambda: DataFromList(np.arange(12).reshape(4, 3)),
    "many": lambda: DataFromList(range(70_000)),
}


@pytest.mark.parametrize("name", FLOWS)
def test_conformance(name):
    check_dataflow(FLOWS[name](), limit=40)


def test_shuffles_differ_and_are_complete():
    flow = DataFromList(range(1000))
    flow.seed(0)
    one, two = list(flow), list(flow)
    assert one != two
    assert sorted(one) == sorted(two) == list(range(1000))


@pytest.mark.parametrize("size", [63, 64, 65, 320, 321, 700])
def test_a_pass_from_any_place_is_the_rest_of_the_pass(size):
    flow = DataFromList(range(size))
    flow.seed(1)
    state, whole = flow.state_dict(), list(flow)
    for start in (1, 2, 62, 255, 256, size - 1):
        flow.load_state_dict({**state, "index": min(start, size)})
        assert list(flow) == whole[start:]


def test_a_lazy_sequence_is_asked_for_one_member_at_a_time():
    class Lazy:
        asked = 0

        def __len__(self):
            return 100

        def __getitem__(self, index):
            self.asked += 1
            return index

    lazy = Lazy()
    next(iter(DataFromList(lazy)))
    assert lazy.asked == 1


@pytest.mark.parametrize("wrong", [{1, 2}, "abc", {"a": 1}, 5, iter([1])])
def test_list_takes_sequences_only(wrong):
    with pytest.raises(
        ArgumentTypeError, match=f"takes a list or another sequence; received {type(wrong).__name__}"
    ):
        DataFromList(wrong)
