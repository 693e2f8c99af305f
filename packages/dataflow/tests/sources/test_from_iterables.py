import numpy as np
import pytest

from towerpack_dataflow import (
    ArgumentTypeError,
    DataFromGenerator,
    DataFromIterable,
    DataFromList,
    ExhaustedError,
    FixedSizeData,
    MapData,
)
from towerpack_dataflow.testing import check_dataflow


def numbers():
    for number in range(7):
        yield [number]


FLOWS = {
    "list": lambda: DataFromList([[i, str(i)] for i in range(11)]),
    "list in order": lambda: DataFromList([[i] for i in range(11)], shuffle=False),
    "dicts": lambda: DataFromList([{"a": i} for i in range(300)]),
    "empty": lambda: DataFromList([]),
    "array": lambda: DataFromList(np.arange(12).reshape(4, 3)),
    "many": lambda: DataFromList(range(70_000)),
    "iterable": lambda: DataFromIterable({"a": 1, "b": 2}.items()),
    "no length": lambda: DataFromIterable(MapAgain()),
    "function": lambda: DataFromGenerator(numbers),
    "generator": lambda: DataFromGenerator(lambda: ([i] for i in range(5))),
}


class MapAgain:
    def __iter__(self):
        return map(list, [[1], [2], [3]])


@pytest.mark.parametrize("name", FLOWS)
def test_conformance(name):
    check_dataflow(FLOWS[name](), limit=40)


def test_shuffles_differ_and_are_complete():
    flow = DataFromList(range(1000))
    flow.seed(0)
    one, two = list(flow), list(flow)
    assert one != two
    assert sorted(one) == sorted(two) == list(range(1000))


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
        ArgumentTypeError, match=f"takes a list or another sequence; got {type(wrong).__name__}"
    ):
        DataFromList(wrong)


def test_iterable_takes_what_can_be_iterated():
    with pytest.raises(ArgumentTypeError, match="DataFromIterable takes something to iterate over; got int"):
        DataFromIterable(5)
    with pytest.raises(ArgumentTypeError, match="DataFromGenerator takes something to iterate over; got int"):
        DataFromGenerator(5)
    with pytest.raises(ArgumentTypeError, match="DataFromList is a flow already"):
        DataFromIterable(DataFromList([]))
    with pytest.raises(ArgumentTypeError, match=r"expected a DataFlow, a list, or something.*got int"):
        MapData(5, list)


def test_lengths():
    assert len(DataFromIterable({1, 2})) == 2
    for flow in (DataFromGenerator(numbers), DataFromIterable(iter([1]))):
        with pytest.raises(TypeError, match="has no length, since what it iterates over has none"):
            len(flow)


def test_a_flow_of_the_tensorpack_kind_is_welcome():
    class Old:
        resets = 0

        def reset_state(self):
            self.resets += 1

        def __len__(self):
            raise NotImplementedError

        def __iter__(self):
            return iter([[1], [2]])

    old = Old()
    flow = MapData(old, lambda dp: [dp[0] + 1])
    assert list(flow) == list(flow) == [[2], [3]]
    assert old.resets == 1
    with pytest.raises(TypeError):
        len(flow)


def test_a_generator_object_gives_one_pass_and_then_an_error():
    flow = DataFromGenerator(numbers())
    assert len(list(flow)) == 7
    with pytest.raises(
        ExhaustedError, match="holds a generator, which can be read once, and 7 datapoints of epoch 0 are out"
    ) as caught:
        list(flow)
    assert isinstance(caught.value, RuntimeError)
    flow = DataFromIterable(iter([1, 2]))
    next(iter(flow))
    with pytest.raises(ExhaustedError, match="Pass a function that returns a new one"):
        list(flow)


def test_a_generator_object_goes_on_where_it_was_left():
    flow = DataFromGenerator(numbers())
    next(iter(flow))
    flow.load_state_dict({"seed": 0, "epoch": 0, "index": 3})
    assert list(flow) == [[3], [4], [5], [6]]


def test_fixed_size_over_a_generator_object_continues_and_ends_in_a_clear_error():
    flow = FixedSizeData(DataFromGenerator(numbers()), 3)
    assert list(flow) == [[0], [1], [2]]
    assert list(flow) == [[3], [4], [5]]
    got = []
    with pytest.raises(ExhaustedError):
        got.extend(flow)


def test_a_function_that_returns_an_exhausted_generator():
    generator = numbers()
    flow = DataFromGenerator(lambda: generator)
    assert len(list(flow)) == 7
    with pytest.raises(ExhaustedError, match="returned a generator that is exhausted already"):
        list(flow)
