import os
import pickle
import subprocess
import sys
import threading

import cloudpickle
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from resources import open_files

from towerpack_dataflow import BatchData, DataFromList, MapData, PayloadError
from towerpack_dataflow.storage import PackedList, SharedListPickle
from towerpack_dataflow.testing import check_dataflow, same

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="lists are packed into a memfd")

PAIRS = [(f"images/{i:08d}.jpg", i % 10) for i in range(20_000)]


def packed(members):
    """The list a worker has, and the payload it came in."""
    payload = SharedListPickle()
    return pickle.loads(pickle.dumps(payload.pack(members))), payload


def big(members):
    """Long enough for a payload, wherever in the list samples are taken."""
    return [*members, *(f"{i:01000}" for i in range(500))]


values = st.one_of(
    st.integers(),
    st.text(),
    st.none(),
    st.tuples(st.text(), st.integers()),
    st.dictionaries(st.text(), st.binary()),
)


@given(members=st.lists(values, max_size=50), data=st.data())
def test_it_is_the_list(members, data):
    members = big(members)
    got, payload = packed(members)
    assert type(got) is PackedList
    assert len(got) == len(members)
    assert list(got) == members
    assert got[::-2] == members[::-2]
    index = data.draw(st.integers(-len(members), len(members) - 1))
    assert got[index] == members[index]
    for outside in (len(members), -len(members) - 1):
        with pytest.raises(IndexError):
            got[outside]
    payload.close()


def test_arrays_keep_dtype_and_shape():
    arrays = [np.arange(i, dtype=np.int16).reshape(1, i) for i in range(500)]
    got, _payload = packed(arrays)
    assert type(got) is PackedList
    assert len(got) == len(arrays)
    assert all(same(one, other) for one, other in zip(got, arrays))


def test_a_flow_of_a_packed_list_conforms():
    members, _payload = packed(PAIRS)
    check_dataflow(DataFromList(members, shuffle=False), positions=3)
    check_dataflow(DataFromList(members, shuffle=True), positions=3)


def test_changes_by_a_consumer_do_not_affect_the_list():
    members, _payload = packed(big([[i] for i in range(99)]))
    flow = DataFromList(members, shuffle=False)
    next(iter(flow)).append("changed")
    assert next(iter(flow)) == [0]


@pytest.mark.slow
def test_another_process_reads_the_same():
    flow = BatchData(DataFromList(PAIRS, shuffle=True), 100)
    flow.seed(5)
    payload = SharedListPickle()
    with payload.packing():
        sent = cloudpickle.dumps(flow)
    assert len(sent) < 2_000
    code = (
        "import pickle, sys; flow = pickle.loads(sys.stdin.buffer.read());"
        "assert type(flow.ds._lst).__name__ == 'PackedList';"
        "sys.stdout.buffer.write(pickle.dumps(list(flow)))"
    )
    done = [
        subprocess.run([sys.executable, "-c", code], input=sent, capture_output=True, check=True)
        for _ in "ab"
    ]
    expected = list(flow)
    for worker in done:
        assert same(pickle.loads(worker.stdout), expected)


def test_from_worker_to_worker_only_the_place_travels():
    flow = DataFromList(PAIRS, shuffle=False)
    outer, inner = SharedListPickle(), SharedListPickle()
    with outer.packing():
        worker = cloudpickle.loads(cloudpickle.dumps(flow))
    with inner.packing():
        sent = cloudpickle.dumps(worker)
    outer.close()
    assert len(sent) < 2_000
    assert list(cloudpickle.loads(sent)) == PAIRS


def test_two_flows_over_one_list_share_it():
    payload = SharedListPickle()
    with payload.packing():
        sent = cloudpickle.dumps([DataFromList(PAIRS), DataFromList(PAIRS, shuffle=False)])
    train, test = cloudpickle.loads(sent)
    assert train._lst._place.inode == test._lst._place.inode


def test_outside_a_payload_a_copy_stands_alone():
    flow = cloudpickle.loads(cloudpickle.dumps(DataFromList(PAIRS)))
    assert type(flow._lst) is list
    members, payload = packed(PAIRS)
    sent = cloudpickle.dumps(DataFromList(members, shuffle=False))
    payload.close()
    del members
    assert list(cloudpickle.loads(sent)) == PAIRS


def test_short_and_entangled_lists_stay_whole():
    table = list(range(100_000))
    payload = SharedListPickle()
    for members in ([], PAIRS[:100], range(10**9), [(table, i) for i in range(1000)]):
        assert payload.pack(members) is members


def test_without_memfd_lists_travel_in_the_pickle(monkeypatch):
    monkeypatch.delattr(os, "memfd_create")
    assert SharedListPickle().pack(PAIRS) is PAIRS


def test_classes_of_the_main_module_travel_by_value():
    code = (
        "import cloudpickle, subprocess, sys\n"
        "from towerpack_dataflow import DataFromList\n"
        "from towerpack_dataflow.storage import SharedListPickle\n"
        "class Record:\n"
        "    def __init__(self, i): self.i = i\n"
        "payload = SharedListPickle()\n"
        "with payload.packing():\n"
        "    sent = cloudpickle.dumps(DataFromList([Record(i) for i in range(9000)], shuffle=False))\n"
        "reader = 'import pickle, sys; print(sum(r.i for r in pickle.load(sys.stdin.buffer)))'\n"
        "subprocess.run([sys.executable, '-c', reader], input=sent, check=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) == sum(range(9000))


def test_nothing_is_left_open():
    before = open_files()
    flow = MapData(DataFromList(PAIRS), len)
    payload = SharedListPickle()
    with payload.packing():
        copied = cloudpickle.loads(cloudpickle.dumps(flow))
    assert len(open_files() - before) == 3  # the payload's, the list's, and its mapping's
    payload.close()
    payload.close()
    assert len(list(copied)) == len(PAIRS)
    del copied
    assert not open_files() - before


def test_errors():
    payload = SharedListPickle()
    with pytest.raises(TypeError, match="pickle") as caught, payload.packing():
        cloudpickle.dumps(DataFromList([*PAIRS, (threading.Lock(), 1), *PAIRS]))
    assert "this is member 20000 of a list of 40001, a tuple" in caught.value.__notes__
    assert not payload._places
    place = payload.pack(PAIRS)
    sent = pickle.dumps(place)
    payload.close()
    with pytest.raises(PayloadError, match="closed its payload"):
        pickle.loads(sent)
    with pytest.raises(
        PayloadError, match="a list of 20000 members lies in the memory of process 0, and /proc/0/fd"
    ):
        PackedList(place._replace(process=0))
