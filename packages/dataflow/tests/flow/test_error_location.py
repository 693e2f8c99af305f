import pytest

from towerpack_dataflow import (
    BatchData,
    DataFlow,
    DataFlowError,
    DataFromGenerator,
    DataFromList,
    FlowDefinitionError,
    MapData,
    NotAddressableError,
    StateError,
    UnknownLengthError,
)


def test_errors_keep_their_type_and_name_the_place():
    def broken(dp):
        if dp[0] == 3:
            raise KeyError("mine")
        return dp

    flow = BatchData(MapData(MapData(DataFromList([[i] for i in range(6)], shuffle=False), list), broken), 2)
    with pytest.raises(KeyError, match="mine") as caught:
        list(flow)
    (note,) = caught.value.__notes__
    assert note.startswith("in the flow BatchData(2) > MapData(")
    assert note.endswith("broken), while making datapoint 1 of epoch 0")


def test_errors_in_the_lower_of_two_maps_name_it():
    def broken(dp):
        raise OSError("lower")

    def fine(dp):
        return dp

    with pytest.raises(OSError, match="lower") as caught:
        list(MapData(MapData([[1]], broken), fine))
    assert caught.value.__notes__[0].endswith("broken), while making datapoint 0 of epoch 0")


@pytest.mark.parametrize("where", ["iter", "generator", "datapoint", "list"])
def test_errors_in_sources_name_the_place(where):
    def generator():
        yield [0]
        raise OSError("source")

    class Broken(DataFlow):
        def __iter__(self):
            return generator()

    class BrokenOne(DataFlow):
        def __len__(self):
            return 2

        def datapoint(self, epoch, index):
            return list(generator())[index]

    class BrokenList:
        def __len__(self):
            return 2

        def __getitem__(self, index):
            return list(generator())[index]

    flow = {
        "iter": Broken(),
        "generator": DataFromGenerator(generator),
        "datapoint": BrokenOne(),
        "list": DataFromList(BrokenList()),
    }[where]
    with pytest.raises(OSError, match="source") as caught:
        list(MapData(flow, list))
    index = 1 if where in {"iter", "generator"} else 0
    assert f"> {flow._name()}, while making datapoint {index} of epoch 0" in caught.value.__notes__[0]


def test_an_exception_that_takes_no_notes_still_comes_through():
    class Frozen(Exception):
        def __setattr__(self, name, value):
            raise AttributeError(name)

    def broken(dp):
        raise Frozen

    with pytest.raises(Frozen):
        list(MapData([[1]], broken))


def test_after_an_error_the_state_is_before_the_failed_datapoint():
    def broken(dp):
        if dp == 2:
            raise ValueError
        return dp

    flow = MapData(range(5), broken)
    with pytest.raises(ValueError):
        list(flow)
    assert flow.state_dict()["index"] == 2


def test_all_errors_have_one_root():
    for error in (FlowDefinitionError, NotAddressableError, StateError, UnknownLengthError):
        assert issubclass(error, DataFlowError)
