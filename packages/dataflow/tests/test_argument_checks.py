"""Any argument of a constructor yields a working flow or an error that names the argument."""

import contextlib
import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from towerpack_dataflow import (
    ArgumentError,
    ArgumentTypeError,
    BatchData,
    DataFlowError,
    DataFromArrays,
    DataFromGenerator,
    DataFromIterable,
    DataFromList,
    FixedSizeData,
    MapData,
    MapDataComponent,
    MultiProcessMapAndBatchData,
    MultiProcessMapData,
    MultiProcessRunner,
    MultiThreadMapData,
    MultiThreadRunner,
    PrintData,
    RepeatedData,
    ShardData,
    StateError,
    reshard,
)

DATA = [[number] for number in range(8)]


def same(datapoint):
    return datapoint


FLAGS = {
    "shuffle of a list": lambda value: DataFromList(DATA, shuffle=value),
    "shuffle of arrays": lambda value: DataFromArrays([np.zeros(3)], shuffle=value),
    "rng": lambda value: MapData(DATA, same, rng=value),
    "rng of a component": lambda value: MapDataComponent(DATA, same, rng=value),
    "drops": lambda value: MapData(DATA, same, drops=value),
    "remainder": lambda value: BatchData(DATA, 2, remainder=value),
    "use_list": lambda value: BatchData(DATA, 2, use_list=value),
    "keep_state": lambda value: FixedSizeData(DATA, 2, keep_state=value),
    "ordered": lambda value: MultiProcessRunner(DATA, 2, ordered=value),
    "replicate": lambda value: MultiProcessRunner(DATA, 2, replicate=value),
    "rng of a process map": lambda value: MultiProcessMapData(DATA, 2, same, rng=value),
    "drops of a thread map": lambda value: MultiThreadMapData(DATA, 2, same, drops=value),
    "remainder of a process map": lambda value: MultiProcessMapAndBatchData(
        DATA, 2, same, 2, remainder=value
    ),
}
COUNTS = {
    "batch_size": lambda value: BatchData(DATA, value),
    "num": lambda value: RepeatedData(DATA, value),
    "size": lambda value: FixedSizeData(DATA, value),
    "index": lambda value: ShardData(DATA, value, 3),
    "count": lambda value: ShardData(DATA, 0, value),
    "num of prints": lambda value: PrintData(DATA, value),
    "max_depth": lambda value: PrintData(DATA, max_depth=value),
    "max_list": lambda value: PrintData(DATA, max_list=value),
    "num_workers": lambda value: MultiProcessRunner(DATA, value),
    "num_threads": lambda value: MultiThreadRunner(DATA, value),
    "prefetch_bytes": lambda value: MultiProcessMapData(DATA, 2, same, prefetch_bytes=value),
    "batch_size of a process map": lambda value: MultiProcessMapAndBatchData(DATA, 2, same, value),
}
OTHERS = {
    "a list": DataFromList,
    "arrays": DataFromArrays,
    "an iterable": DataFromIterable,
    "a generator": DataFromGenerator,
    "what is mapped": lambda value: MapData(value, same),
    "what is batched": lambda value: BatchData(value, 1, remainder=True),
    "func": lambda value: MapData(DATA, value),
    "func of a component": lambda value: MapDataComponent(DATA, value),
    "index of a component": lambda value: MapDataComponent(DATA, same, value),
    "name": lambda value: PrintData(DATA, name=value),
    "start_method": lambda value: MultiProcessRunner(DATA, 2, start_method=value),
    "on_error": lambda value: MultiProcessRunner(DATA, 2, on_error=value),
    "worker_init_fn": lambda value: MultiProcessRunner(DATA, 2, worker_init_fn=value),
}
anything = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([-1, 0, 1, 2**31, sys.maxsize, sys.maxsize + 1, 2**80]),
    st.floats(),
    st.text(max_size=5),
    st.binary(max_size=3),
    st.sampled_from(
        ["no", "2", "auto", np.int64(3), np.float32(2), np.bool_(True), np.arange(2), np.array(1), [], {}]
    ),
    st.builds(object),
    st.just(same),
    st.just(math),
)


@given(build=st.sampled_from([*FLAGS.values(), *COUNTS.values(), *OTHERS.values()]), value=anything)
def test_a_constructor_builds_a_flow_that_works_or_refuses_its_argument(build, value):
    try:
        flow = build(value)
    except DataFlowError as error:
        assert isinstance(error, (ValueError, TypeError))
        return
    assert repr(flow)
    with contextlib.suppress(TypeError):
        assert len(flow) >= 0


@pytest.mark.parametrize("build", FLAGS.values(), ids=FLAGS)
@given(value=anything.filter(lambda value: not isinstance(value, (bool, np.bool_))))
def test_a_switch_is_a_boolean(build, value):
    with pytest.raises(ArgumentTypeError, match=r"^\w+ is True or False; received "):
        build(value)


@pytest.mark.parametrize("build", COUNTS.values(), ids=COUNTS)
@given(
    value=anything.filter(lambda value: not isinstance(value, (int, np.integer, np.ndarray)) or value is True)
)
def test_a_number_is_no_string_no_float_and_no_boolean(build, value):
    if isinstance(value, str) and value == "auto":
        return
    with pytest.raises(ArgumentError, match=r"is an integer from [01] up.*; received "):
        build(value)


@pytest.mark.parametrize("switch", [True, False, np.bool_(True)])
def test_booleans_of_numpy_are_booleans(switch):
    flow = BatchData(DataFromList(DATA, shuffle=switch), 3, remainder=switch)
    assert len(flow) == (3 if switch else 2)
    assert flow.state_dict()["flow"]["0"]["shuffle"] is bool(switch)


def test_more_repetitions_than_len_can_return_are_rejected_with_a_remedy():
    with pytest.raises(ArgumentError, match=r"of 8 datapoints are more than len\(\) .* or -1 for endless"):
        RepeatedData(DATA, sys.maxsize)
    with pytest.raises(ArgumentError, match=r"num is an integer up to \d+, or -1 for endless repetition;"):
        RepeatedData(DATA, sys.maxsize + 1)
    assert next(iter(RepeatedData(DataFromGenerator(lambda: iter(DATA)), sys.maxsize))) == [0]
    with pytest.raises(ArgumentError, match="size is an integer up to"):
        FixedSizeData(DATA, sys.maxsize + 1)


@given(epoch=anything, index=anything)
def test_a_datapoint_s_numbers_are_integers(epoch, index):
    flow = DataFromList(DATA)
    flow.seed(1)
    try:
        assert flow.datapoint(epoch, index) in DATA
    except IndexError:
        assert not 0 <= index < 8
    except (ArgumentError, ArgumentTypeError) as error:
        assert "is an integer" in str(error)


@given(state=anything, numbers=st.tuples(anything, anything, anything))
def test_reshard_takes_a_state_and_numbers(state, numbers):
    with pytest.raises(StateError, match="a state is the dict"):
        reshard(state, 1, 0, 2)
    with contextlib.suppress(ArgumentError):
        assert reshard({"index": 5}, *numbers)["index"] >= 0


def test_reshard_of_large_numbers():
    assert reshard({"index": sys.maxsize}, 4, 1, 2)["index"] == 2 * sys.maxsize
