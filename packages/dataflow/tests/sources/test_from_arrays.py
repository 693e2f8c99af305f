import json
from collections import namedtuple
from functools import lru_cache
from itertools import islice

import numpy as np
import pytest
from any_datapoints import few_examples
from hypothesis import given
from hypothesis import strategies as st

from towerpack_dataflow import (
    ArgumentError,
    ArgumentTypeError,
    BatchData,
    BatchError,
    DataFromArrays,
    DataFromList,
    Effect,
    FixedSizeData,
    MultiProcessRunner,
    PrintData,
    ProxyDataFlow,
    RepeatedData,
    ShardData,
)
from towerpack_dataflow.testing import check_dataflow, same

MOST = 25
LONG = 2**16 + 5  # orders of more than 2**16 are computed piece by piece
Pair = namedtuple("Pair", "image label")


class OneByOne(ProxyDataFlow):
    """Hides that the flow below can gather."""

    effect = Effect(keeps_place=True)


def known_length(flow):
    try:
        return len(flow)
    except TypeError:
        return None


@lru_cache
def column(kind, size):
    """A component of `size` rows."""
    numbers = np.arange(size * 6)
    return {
        "int64": numbers.reshape(size, 3, 2),
        "float32": numbers.reshape(size, 6).astype("float32"),
        "big-endian": numbers.reshape(size, 6).astype(">i2"),
        "fortran": np.asfortranarray(numbers.reshape(size, 6)),
        "every other": np.repeat(numbers.reshape(size, 6), 2, axis=0)[::2],
        "scalars": numbers[:size].astype("uint8"),
        "dates": numbers[:size].astype("datetime64[D]"),
        "records": np.array([(i, i) for i in range(size)], [("a", "i4"), ("b", "f8")]),
        "no elements": np.zeros((size, 0, 3)),
        "int": list(range(size)),
        "range": range(-size, 0),
        "float": [i / 3 for i in range(size)],
        "bool": tuple(i % 3 == 0 for i in range(size)),
    }[kind]


KINDS = [
    *("int64", "float32", "big-endian", "fortran", "every other", "scalars", "dates", "records"),
    *("no elements", "int", "range", "float", "bool"),
]


def made(kinds, outline, size, shuffle):
    columns = [column(kind, size) for kind in kinds]
    if outline is Pair:
        columns = Pair(columns[0], columns[-1])
    elif outline is dict:
        columns = {f"{place} {kind}": values for place, (kind, values) in enumerate(zip(kinds, columns))}
    return DataFromArrays(outline(columns) if outline is tuple else columns, shuffle)


sources = st.builds(
    made,
    st.lists(st.sampled_from(KINDS), min_size=1, max_size=3),
    st.sampled_from([list, tuple, dict, Pair]),
    st.one_of(st.integers(1, 17), st.just(LONG)),
    st.booleans(),
)


def grown(flows):
    numbers = st.integers(1, 20)
    return st.one_of(
        st.builds(RepeatedData, flows, st.integers(1, 3)),
        st.builds(FixedSizeData, flows, numbers, st.booleans()),
        st.builds(
            lambda ds, index, more: sharded(ds, index, index + more), flows, st.integers(0, 3), numbers
        ),
        st.builds(lambda ds, count: ShardData(RepeatedData(ds, -1), count - 1, count), flows, numbers),
        st.builds(seen, flows),
    )


def sharded(ds, index, count):
    length = known_length(ds)
    return ShardData(ds, index, count) if length is None or length > index else ds


def seen(ds):
    printer = PrintData(ds)
    printer._done = True
    return printer


trees = st.recursive(sources, grown, max_leaves=3)


@given(trees, st.integers(1, 7), st.integers(0, 3), st.booleans(), st.booleans())
@few_examples(100)
def test_gathered_batches_are_those_of_single_datapoints(tree, size, start, remainder, endless):
    tree = RepeatedData(tree, -1) if endless and known_length(tree) else tree
    endless = known_length(tree) is None
    remainder = remainder or endless or size > len(tree)
    gathered = BatchData(tree, size, remainder)
    stacked = BatchData(OneByOne(tree), size, remainder)
    start = start if endless else min(start, len(gathered))
    for flow in (gathered, stacked):
        flow.load_state_dict({"seed": 3, "epoch": 1, "index": start})
    expected = list(islice(stacked, MOST))
    stacked.load_state_dict({"seed": 3, "epoch": 1, "index": start})  # both walk over one tree
    expected += list(islice(stacked, MOST))
    received = list(islice(gathered, MOST))
    gathered.load_state_dict({"seed": 3, "epoch": 1, "index": start})
    received += list(islice(gathered, MOST))
    assert same(received, expected)


@pytest.mark.parametrize(
    "over",
    [
        lambda rows: rows,
        lambda rows: ShardData(rows, 1, 3),
        lambda rows: ShardData(RepeatedData(rows, -1), 2, 7),
        lambda rows: FixedSizeData(rows, 20_000),
        lambda rows: FixedSizeData(RepeatedData(ShardData(rows, 0, 2), 2), 40_000, keep_state=False),
    ],
    ids=["alone", "shard", "shard of repeated", "fixed size", "tree"],
)
def test_long_ranges_of_a_computed_order_are_gathered_right(over):
    # An order is computed some thousand positions ahead; these batches go beyond that several times.
    rows = over(DataFromArrays([np.arange(LONG)]))
    gathered, stacked = BatchData(rows, 301), BatchData(OneByOne(rows), 301)
    received = []
    for flow in (gathered, stacked):
        flow.load_state_dict({"seed": 3, "epoch": 1, "index": 5})
        received.append(list(islice(flow, 60)))
    assert len(received[0]) == 60
    assert same(*received)


def test_flows_that_gather_rows():
    flow = DataFromArrays([np.arange(4)])
    through = [RepeatedData(flow, 2), RepeatedData(flow, -1), FixedSizeData(flow, 9), ShardData(flow, 1, 2)]
    through += [ShardData(RepeatedData(flow, -1), 1, 2), seen(flow)]
    assert all(flow._columns() is not None for flow in through)
    assert OneByOne(flow)._columns() is PrintData(flow)._columns() is None


def test_shards_of_repeated_shards():
    tree = ShardData(RepeatedData(ShardData(DataFromArrays([np.arange(40)]), 1, 3), 4), 2, 5)
    gathered, stacked = BatchData(tree, 3, remainder=True), BatchData(OneByOne(tree), 3, remainder=True)
    passes = []
    for flow in (gathered, stacked):
        flow.load_state_dict({"seed": 0, "epoch": 1, "index": 0})
        passes.append(list(flow))
    assert same(*passes)
    assert len(passes[0]) == 4


def test_states_count_the_yielded_batches():
    flow = BatchData(RepeatedData(DataFromArrays([np.arange(100)]), -1), 7)
    flow.seed(5)
    iterator = iter(flow)
    first = [next(iterator) for _ in range(40)]
    state = json.loads(json.dumps(flow.state_dict()))
    assert (state["index"], "marks" in state) == (40, False)
    flow.load_state_dict(state)
    assert same(next(iter(flow)), next(iterator))
    assert sorted(np.concatenate([numbers for (numbers,) in first])[:100]) == list(range(100))


def test_conformance():
    images = np.arange(60.0).reshape(20, 3)
    check_dataflow(DataFromArrays([images, list(range(20))]))
    check_dataflow(BatchData(DataFromArrays({"image": images, "label": list(range(20))}), 3))
    check_dataflow(BatchData(ShardData(RepeatedData(DataFromArrays((images,)), 2), 1, 3), 4, remainder=True))


def test_datapoints_have_the_type_of_the_components_and_do_not_share_memory():
    images = np.arange(6).reshape(3, 2)
    flow = DataFromArrays(Pair(images, [0.5, 1.5, 2.5]), shuffle=False)
    image, label = first = next(iter(flow))
    assert (type(first), type(label)) == (Pair, float)
    image += 100
    batch = next(iter(BatchData(flow, 2)))
    batch.image[...] += 100
    assert images.tolist() == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize("values", [["a", "bc"], [b"a", b""]])
def test_text_is_stacked_one_by_one(values):
    flow = DataFromArrays([np.arange(4.0).reshape(2, 2), values], shuffle=False)
    assert flow._columns() is None
    assert next(iter(BatchData(flow, 2)))[1].dtype == "object"


def test_rows_of_a_masked_array_keep_their_masks():
    masked = np.ma.masked_less(np.arange(6.0).reshape(3, 2), 2)
    flow = DataFromArrays([masked, masked[:, 0]], shuffle=False)
    first, second, _ = flow
    assert first[0].mask.all() and first[1] is np.ma.masked
    assert not second[0].mask.any() and second[1] == 2
    with pytest.raises(BatchError, match="datapoint 0 of the pass has a masked array in component 0"):
        list(BatchData(flow, 1))
    whole = DataFromArrays([masked[1:]], shuffle=False)
    assert next(iter(BatchData(whole, 2)))[0].tolist() == [[2, 3], [4, 5]]


def test_use_list_keeps_lists():
    ((numbers,),) = BatchData(DataFromArrays([[1, 2]], shuffle=False), 2, use_list=True)
    assert numbers == [1, 2]


def test_a_subclass_is_asked_for_its_own_datapoints():
    class Doubled(DataFromArrays):
        def datapoint(self, epoch, index):
            return [2 * index]

    class Reversed(RepeatedData):
        def __iter__(self):
            yield from list(super().__iter__())[::-1]

    numbers = [np.arange(4)]
    assert [batch.tolist() for (batch,) in BatchData(Doubled(numbers), 4)] == [[0, 2, 4, 6]]
    flow = BatchData(Reversed(DataFromArrays(numbers, shuffle=False), 1), 4)
    assert [batch.tolist() for (batch,) in flow] == [[3, 2, 1, 0]]


def test_arrays_of_a_mapped_file(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(40).reshape(10, 4))
    flow = DataFromArrays([np.load(tmp_path / "x.npy", mmap_mode="r")], shuffle=False)
    (first,) = next(iter(BatchData(flow, 5)))
    assert first.tolist() == np.arange(20).reshape(5, 4).tolist()
    assert type(flow.datapoint(0, 1)[0]) is np.ndarray


@pytest.mark.slow
def test_in_worker_processes():
    def flow():
        return BatchData(DataFromArrays([np.arange(8000).reshape(1000, 8), list(range(1000))]), 64)

    alone, runner = flow(), MultiProcessRunner(flow(), 2)
    alone.seed(1)
    runner.seed(1)
    assert same(list(runner), list(alone))


def test_bad_components():
    with pytest.raises(
        ArgumentTypeError, match=r"takes a list, tuple or dict of arrays, .* received ndarray"
    ):
        DataFromArrays(np.zeros((3, 2)))
    with pytest.raises(ArgumentError, match="components of one length; received 3 in 'x', 4 in 'y'"):
        DataFromArrays({"x": np.zeros(3), "y": [1, 2, 3, 4]})
    with pytest.raises(ArgumentError, match="components of one length; received no component"):
        DataFromArrays([])
    with pytest.raises(ArgumentTypeError, match="component 1 of DataFromArrays is an array without axes"):
        DataFromArrays([np.zeros(3), np.array(3)])
    with pytest.raises(ArgumentTypeError, match="component 0 of DataFromArrays is str; give an array"):
        DataFromArrays(["abc"])


def test_no_rows():
    flow = DataFromArrays([np.zeros((0, 3))])
    assert (len(flow), list(flow), list(BatchData(flow, 2, remainder=True))) == (0, [], [])


def test_a_list_of_lists_does_not_gather():
    assert DataFromList([[1], [2]])._columns() is None
