import pytest

from towerpack_dataflow import ArgumentTypeError, DataFromIterable, DataFromList, MapData, ProxyDataFlow


def test_a_flow_stays_itself_and_others_become_flows():
    flow = DataFromList([[1]])
    assert ProxyDataFlow(flow).ds is flow
    for sequence in ([[1], [2]], ([1], [2]), range(2)):
        below = ProxyDataFlow(sequence).ds
        assert type(below) is DataFromList
        assert list(below) == list(sequence)
    assert type(ProxyDataFlow({1: 2}).ds) is DataFromIterable


@pytest.mark.parametrize("wrong", [5, "abc", b"abc"])
def test_other_things_are_refused(wrong):
    with pytest.raises(
        ArgumentTypeError,
        match=rf"expected a DataFlow, a list, or something.*received {type(wrong).__name__}",
    ):
        MapData(wrong, list)


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
