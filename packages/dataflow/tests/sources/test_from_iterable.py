import pytest

from towerpack_dataflow import (
    ArgumentTypeError,
    DataFromGenerator,
    DataFromIterable,
    DataFromList,
    ExhaustedError,
    FixedSizeData,
)
from towerpack_dataflow.testing import check_dataflow


def numbers():
    for number in range(7):
        yield [number]


FLOWS = {
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


def test_only_iterables_are_accepted():
    with pytest.raises(ArgumentTypeError, match="DataFromIterable takes an iterable; received int"):
        DataFromIterable(5)
    with pytest.raises(ArgumentTypeError, match="DataFromGenerator takes an iterable; received int"):
        DataFromGenerator(5)
    with pytest.raises(ArgumentTypeError, match="DataFromList is a flow already"):
        DataFromIterable(DataFromList([]))


def test_lengths():
    assert len(DataFromIterable({1, 2})) == 2
    for flow in (DataFromGenerator(numbers), DataFromIterable(iter([1]))):
        with pytest.raises(TypeError, match="has no length, since its iterable has none"):
            len(flow)


def test_a_generator_object_gives_one_pass_and_then_an_error():
    flow = DataFromGenerator(numbers())
    assert len(list(flow)) == 7
    with pytest.raises(
        ExhaustedError,
        match="holds a generator, which can be read once, and 7 datapoints of epoch 0 were read",
    ) as caught:
        list(flow)
    assert isinstance(caught.value, RuntimeError)
    flow = DataFromIterable(iter([1, 2]))
    next(iter(flow))
    with pytest.raises(ExhaustedError, match="Pass a function that returns a new one"):
        list(flow)


def test_a_generator_object_continues_where_it_was_left():
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
    with pytest.raises(ExhaustedError, match="returned a generator that is already exhausted"):
        list(flow)
