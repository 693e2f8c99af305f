import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from towerpack_dataflow.runtime.pool import Dispatcher, TaskSize


def drain(dispatcher):
    taken = []
    while (made := dispatcher.take()) is not None:
        taken.extend(made)
    return taken


@settings(max_examples=100, deadline=None)
@given(
    data=st.data(),
    stop=st.integers(0, 60),
    start=st.integers(0, 20),
    ordered=st.booleans(),
    contiguous=st.sampled_from([1, 7]),
)
def test_every_datapoint_once_however_workers_answer(data, stop, start, ordered, contiguous):
    start = min(start, stop)
    dispatcher = Dispatcher(start, stop, window=5, ordered=ordered, contiguous=contiguous)
    flying, got = [], []
    while not dispatcher.finished:
        if data.draw(st.booleans()) or not flying:
            index_range = dispatcher.next_range()
            if index_range is not None:
                flying.append(index_range)
        if flying:
            begin, end = flying.pop(data.draw(st.integers(0, len(flying) - 1)))
            until = data.draw(st.integers(begin, end)) if data.draw(st.booleans()) else end
            going_on = begin < until < end and data.draw(st.booleans())
            dispatcher.complete(begin, until, list(range(begin, until)), 1, 1e-5, going_on=going_on)
            flying += [(until, end)] * going_on
        got += drain(dispatcher)
    assert (got if ordered else sorted(got)) == list(range(start, stop))


def test_a_slow_stretch_stops_the_others_only_at_the_window():
    dispatcher = Dispatcher(0, 100, window=4)
    slow = dispatcher.next_range()
    for _ in range(3):
        begin, end = dispatcher.next_range()
        dispatcher.complete(begin, end, [begin], 1, 1.0)
    assert dispatcher.next_range() is None
    assert dispatcher.take() is None
    dispatcher.complete(*slow, [0])
    assert drain(dispatcher) == [0, 1, 2, 3]


def test_the_rest_of_a_stretch_goes_first_and_needs_no_room():
    dispatcher = Dispatcher(0, 100, window=1)
    dispatcher.task_size.learn(1, 1e-6, 1)
    begin, end = dispatcher.next_range()
    dispatcher.complete(begin, begin, [], 0)
    assert dispatcher.next_range() == (begin, end)


def test_bytes_limit_the_ranges_in_progress():
    dispatcher = Dispatcher(0, None, budget=100)
    for _ in range(3):
        begin, end = dispatcher.next_range()
        dispatcher.complete(begin, end, ["x"], 60, 1.0)
        if begin == 0:
            dispatcher.take()
    assert dispatcher.next_range() is None
    dispatcher.take()
    assert dispatcher.next_range() == (3, 4)


def test_a_pass_that_ends_earlier_than_thought():
    dispatcher = Dispatcher(0, None)
    first, second = dispatcher.next_range(), dispatcher.next_range()
    dispatcher.end_at(1)
    dispatcher.complete(second[0], second[0], [])
    assert not dispatcher.finished
    dispatcher.complete(*first, ["only"])
    assert drain(dispatcher) == ["only"]
    assert dispatcher.finished


def test_delivered_datapoints_are_not_handed_out_again():
    dispatcher = Dispatcher(0, 10, done=[(7, 8), (0, 2), (4, 5)], ordered=False)
    got = []
    while (index_range := dispatcher.next_range()) is not None:
        dispatcher.complete(*index_range, list(range(*index_range)))
        got += drain(dispatcher)
    assert sorted(got) == [2, 3, 5, 6, 8, 9]


@pytest.mark.parametrize(("seconds", "size", "count"), [(1e-5, 10, 400), (1.0, 10, 1), (1e-9, 2**19, 2)])
def test_tasks_grow_to_four_milliseconds_or_a_megabyte(seconds, size, count):
    task_size = TaskSize()
    for _ in range(40):
        task_size.learn(task_size.count, seconds * task_size.count, size * task_size.count)
    assert task_size.count == pytest.approx(count, abs=1)


@pytest.mark.parametrize(("size", "ranges"), [(2**20, 3), (2**10, 9)])
def test_fewer_ranges_of_large_datapoints_are_under_way(size, ranges):
    dispatcher = Dispatcher(0, None, window=9, large=3, budget=2**40)
    for _ in range(3):  # the size is unknown, and may be large
        begin, end = dispatcher.next_range()
    assert dispatcher.next_range() is None
    dispatcher.complete(begin, end, ["x"], size, 1.0)
    while dispatcher.next_range() is not None:
        pass
    assert dispatcher.under_way == ranges
    assert Dispatcher(0, None, large=3).next_range(others=3) is not None  # the first one always has room


def test_ranges_of_an_earlier_pass_count():
    dispatcher = Dispatcher(0, None, large=3)
    dispatcher.next_range(others=2)
    assert dispatcher.next_range(others=2) is None
    assert dispatcher.next_range(others=1) is not None


def test_contiguous_ranges_end_at_multiples_and_fit_into_the_memory():
    dispatcher = Dispatcher(3, None, contiguous=10, large=4, budget=800)
    begin, end = dispatcher.next_range()  # the size is unknown
    assert (begin, end) == (3, 4)
    dispatcher.complete(begin, end, ["x"], 10, 1.0)
    assert [dispatcher.next_range() for _ in range(3)] == [(4, 10), (10, 20), (20, 30)]
    assert Dispatcher(0, None, contiguous=10).length == 1
    small = Dispatcher(0, None, contiguous=10, large=4, budget=240)
    small.task_size.learn(1, 1.0, 10)
    assert small.length == 3
