import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from towerpack_dataflow import (
    ArgumentError,
    DataFromList,
    FilterData,
    MapData,
    ShardData,
    StateError,
    WindowData,
)
from towerpack_dataflow.testing import check_dataflow


def source(size=20):
    return MapData(DataFromList([[i] for i in range(size)]), lambda dp, rng: [*dp, rng.random()], rng=True)


FLOWS = {
    "overlapping": lambda: WindowData(source(), 4),
    "apart": lambda: WindowData(source(), 2, 5),
    "one after another": lambda: WindowData(source(), 4, 4),
    "stream": lambda: WindowData(FilterData(source(40), lambda dp: dp[0] % 4), 4, 2),
    "stream, apart": lambda: WindowData(FilterData(source(40), lambda dp: dp[0] % 4), 2, 3),
    "lists": lambda: WindowData(source(), 3, use_list=True),
    "too few": lambda: WindowData(source(3), 4),
}


@pytest.mark.parametrize("name", FLOWS)
def test_conformance(name):
    check_dataflow(FLOWS[name]())


@given(length=st.integers(0, 30), size=st.integers(1, 12), stride=st.integers(1, 12))
def test_windows_are_ranges_of_the_flow(length, size, stride):
    flow = WindowData([[number] for number in range(length)], size, stride)
    windows = [numbers.tolist() for (numbers,) in flow]
    assert windows == [[*range(i, i + size)] for i in range(0, length - size + 1, stride)]
    assert len(flow) == len(windows)


def test_an_array_that_is_filled_again_and_again():
    memory = np.zeros(2)

    def filled(number):
        memory[:] = number
        return [memory]

    windows = [rows[:, 0].tolist() for (rows,) in WindowData(MapData(range(4), filled), 2)]
    assert windows == [[0, 1], [1, 2], [2, 3]]


def test_the_state_holds_size_and_stride():
    state = WindowData(source(), 4, 2).state_dict()
    with pytest.raises(StateError, match="size of WindowData was 4 and is 3"):
        WindowData(source(), 3, 2).load_state_dict(state)
    assert WindowData(source(), 4).fixed_batch_size == 4
    assert WindowData(ShardData(source(), 0, 2), 4).state_dict()["flow"][""]["size"] == 8


@pytest.mark.parametrize("wrong", [0, -1, 1.5, None])
def test_bad_arguments(wrong):
    with pytest.raises(ArgumentError, match="size is an integer from 1 up; received "):
        WindowData(source(), wrong)
    with pytest.raises(ArgumentError, match="stride is an integer from 1 up; received "):
        WindowData(source(), 2, wrong)
