import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towerpack_dataflow import DataFromList, MapData, MultiProcessRunner
from towerpack_dataflow.storage import LabelledPaths

# As the system's functions return them: a byte that is not UTF-8 is a surrogate.
names = st.text(
    st.one_of(st.characters(exclude_characters="\0/", exclude_categories=["Cs"]), st.just("\udce4")),
    min_size=1,
    max_size=5,
)
folders = st.lists(st.tuples(names, st.lists(names, max_size=4), st.integers(0, 9)), max_size=6)


@given(folders=folders, again=st.booleans(), data=st.data())
def test_it_is_the_list_of_lists(folders, again, data):
    expected = [[f"a/{folder}/{name}", label] for folder, found, label in folders for name in found]
    paths = LabelledPaths("a/", folders)
    if again:
        paths = pickle.loads(pickle.dumps(paths))
    assert len(paths) == len(expected)
    assert list(paths) == expected
    assert paths[::-2] == expected[::-2]
    if expected:
        index = data.draw(st.integers(-len(expected), len(expected) - 1))
        assert paths[index] == expected[index]
    for outside in (len(expected), -len(expected) - 1):
        with pytest.raises(IndexError):
            paths[outside]


@pytest.mark.parametrize("shuffle", [False, True])
def test_workers_read_the_same(shuffle):
    paths = LabelledPaths("", [(f"folder{n}", [f"{i}.jpg" for i in range(2000)], n) for n in range(20)])
    flow, same_flow = (MapData(DataFromList(paths, shuffle), lambda pair: [*pair, 1]) for _ in range(2))
    flow.seed(1)
    with MultiProcessRunner(same_flow, 2) as runner:
        runner.seed(1)
        assert list(runner) == list(flow)
