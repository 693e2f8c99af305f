import numpy as np
import pytest

from towerpack_inputsource.prefetch._put_collector import DatapointStack, StackSize


def test_a_datapoint_is_copied_when_it_is_added():
    buffer = np.zeros(3)
    stack = DatapointStack(4)
    stack.start([buffer])
    buffer[:] = 1
    assert stack.add([buffer])
    buffer[:] = 2
    assert stack.arrays()[0].tolist() == [[0, 0, 0], [1, 1, 1]]


def test_other_shapes_are_refused_and_start_the_next_stack():
    stack = DatapointStack(4)
    stack.start([np.zeros((2, 3)), np.array(1.0)])
    assert not stack.add([np.zeros((1, 3)), np.array(1.0)])
    assert stack.count == 1
    stack.start([np.ones((1, 3)), np.array(2.0)])
    assert [array.shape for array in stack.arrays()] == [(1, 1, 3), (1,)]


@pytest.mark.parametrize(
    ("datapoint", "holds"),
    [
        ([np.zeros(2), np.zeros((), "int32")], True),
        ([np.zeros(2), np.zeros((0, 3))], False),
        ([np.array(["a"], object)], False),
        ([], False),
    ],
)
def test_datapoints_that_can_be_stacked(datapoint, holds):
    assert DatapointStack.holds(datapoint) is holds


def test_large_datapoints_are_single():
    size = StackSize(64)
    for _ in range(10):
        size.note(size.limit(100), size.limit(100))
    assert size.limit(100) == 64
    assert size.limit(100_000) == 10
    assert size.limit(200_000) == 1


def test_stacks_of_one_make_the_next_ones_smaller():
    size = StackSize(64)
    for _ in range(10):
        size.note(size.limit(100), size.limit(100))
    size.note(5, 64)  # the end of a pass, or a slow flow
    assert size.limit(100) == 64
    sizes = []
    for _ in range(8):
        sizes.append(size.limit(100))
        size.note(1, sizes[-1])
    assert sizes == [64, 32, 16, 8, 4, 2, 1, 2]
