from towerpack_dataflow import DataFlow, DataFromList, MapData


def test_iter_starts_the_next_epoch_however_far_the_last_was_read():
    flow = DataFromList(range(20))
    flow.seed(1)
    first, second, third = list(flow), list(flow), list(flow)
    assert first != second
    assert sorted(first) == sorted(second) == list(range(20))
    flow = DataFromList(range(20))
    flow.seed(1)
    next(iter(flow))
    for number, datapoint in enumerate(flow):
        assert datapoint == second[number]
        if number == 10:
            break
    assert list(flow) == third


def test_two_iterators_of_an_addressable_flow():
    flow = MapData(DataFromList(range(10)), lambda dp: dp * 2)
    flow.seed(0)
    passes = [list(flow), list(flow)]
    flow.load_state_dict({"seed": 0, "epoch": 0, "index": 0})
    one, two = iter(flow), iter(flow)
    pairs = list(zip(one, two))
    assert [list(column) for column in zip(*pairs)] == passes
    flow.load_state_dict({"seed": 0, "epoch": 0, "index": 0})
    one = iter(flow)
    next(one)
    two = iter(flow)
    next(one)
    assert (flow.state_dict()["epoch"], flow.state_dict()["index"]) == (1, 0)


def test_places_in_the_tree_have_different_random_numbers():
    class Pair(DataFlow):
        def __init__(self):
            self.one, self.two = DataFromList(range(50)), DataFromList(range(50))

        def __iter__(self):
            yield from zip(self.one, self.two)

    flow = Pair()
    flow.seed(0)
    one, two = zip(*flow)
    assert one != two
    assert sorted(one) == sorted(two)
