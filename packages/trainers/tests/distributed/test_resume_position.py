"""The data position from which each process resumes the chief's checkpoint."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from towerpack_dataflow import DataFromList, ShardData, reshard
from towerpack_trainers.distributed._synchronous_processes import for_processes, own_position


def state(was, local_step, steps, index, epoch=1):
    return {
        "processes": was,
        "loop": {"epoch_num": epoch, "local_step": local_step, "global_step": 99, "steps_per_epoch": steps},
        "input": {"flow": {"version": 1, "seed": 3, "epoch": epoch - 1, "index": index}},
    }


def test_the_same_number_changes_nothing():
    saved = state(3, 1, 4, 2)
    assert for_processes(saved, 2, 3, 4, reshard) == saved


def test_the_chiefs_data_is_compared_only_with_the_chiefs():
    saved = {**state(3, 1, 4, 2), "data": {"datapoints": 4, "components": []}}
    assert for_processes(saved, 0, 3, 4, reshard) == saved
    for rank, size in ((1, 3), (0, 2)):
        assert "data" not in for_processes(saved, rank, size, 4, None)


def test_the_same_total_batch_changes_nothing():
    saved = state(3, 1, 4, 2)
    assert for_processes(saved, 1, 2, 4, None) == saved


def test_the_end_of_an_epoch_is_kept():
    translated = for_processes(state(3, 3, 4, 4), 0, 2, 6, reshard)
    assert translated["loop"]["local_step"] == 5
    assert translated["loop"]["steps_per_epoch"] == 6


@settings(deadline=None)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 6), st.data())
def test_resharded_positions_give_every_datapoint_once(was, now, rounds, data):
    """Shards of one order, stopped after some steps, and continued by another number of processes."""
    length = math.lcm(was, now) * rounds
    done = data.draw(st.integers(0, length // was))
    whole = DataFromList([[k] for k in range(length)], shuffle=True)
    order = [k for (k,) in ShardData(whole, 0, 1)]
    saved = state(was, done - 1, length // was, done)
    saved["input"]["flow"]["seed"] = 0
    rest = []
    for rank in range(now):
        shard = ShardData(DataFromList([[k] for k in range(length)], shuffle=True), rank, now)
        translated = for_processes(saved, rank, now, length // now, reshard)
        shard.load_state_dict(translated["input"]["flow"])
        rest += [k for (k,) in shard]
    assert sorted(rest) == sorted(order[done * was :])


def test_seeds_and_marks_are_not_shared():
    theirs = {"flow": {"seed": 1, "seeds": {"0": 7}, "epoch": 2, "index": 5, "marks": {"0": [1, 2]}}}
    mine = {"flow": {"seed": 8, "epoch": 0, "index": 0}}
    assert own_position(theirs, mine) == {"flow": {"seed": 8, "epoch": 2, "index": 5}}


def test_marks_of_batches_are_valid_in_all_shards():
    flow = {"seed": 1, "epoch": 2, "index": 5, "marks": {"": [0, 2, 4, 9], "0": [1, 2]}}
    flow["flow"] = {"": {"kind": "BatchData", "batch_size": 4}, "0": {"kind": "Stream"}}
    mine = {"flow": {"seed": 8, "epoch": 0, "index": 0}}
    assert own_position({"flow": flow}, mine)["flow"]["marks"] == {"": [0, 2, 4, 9]}


def test_processes_may_read_data_of_different_length():
    chief, mine = (DataFromList([[k] for k in range(length)]) for length in (9, 8))
    list(zip(range(5), chief))
    position = own_position({"flow": chief.state_dict()}, {"flow": mine.state_dict()})["flow"]
    mine.load_state_dict(position)
    assert len(list(mine)) == 3


def test_a_foreign_position_is_used_unchanged():
    assert own_position({"flow": 17}, {"flow": 0}) == {"flow": 17}
