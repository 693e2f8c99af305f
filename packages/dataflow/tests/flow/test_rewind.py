"""A state taken at the beginning resets a flow to its beginning; `test_trees.py` checks it for any tree."""

import pytest

from towerpack_dataflow import DataFromList, FixedSizeData, MapData, MultiThreadMapData, MultiThreadRunner


def drop_nines(datapoint):
    return None if datapoint[0] == 9 else datapoint


def test_a_map_forgets_that_it_dropped():
    flow = MapData(DataFromList([[number] for number in range(12)]), drop_nines)
    begin = flow.state_dict()
    assert len(list(flow)) == 11
    with pytest.raises(TypeError):
        len(flow)
    flow.load_state_dict(begin)
    assert len(flow) == 12
    assert flow.addressable


@pytest.mark.parametrize(
    "parallel",
    [
        lambda ds: MultiThreadRunner(MapData(ds, drop_nines), 2),
        lambda ds: MultiThreadMapData(ds, 2, drop_nines),
        lambda ds: FixedSizeData(MultiThreadRunner(MapData(ds, drop_nines), 2), 17),
    ],
)
def test_running_workers_restart_too(parallel):
    def build():
        flow = parallel(DataFromList([[number] for number in range(12)]))
        flow.seed(4)
        return flow

    flow, fresh = build(), build()
    begin = flow.state_dict()
    expected = [list(fresh), list(fresh)]
    list(flow)
    flow.load_state_dict(begin)
    assert [list(flow), list(flow)] == expected
