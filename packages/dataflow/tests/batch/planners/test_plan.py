"""Plans alone: halving the largest groups, and exchanging members of a class."""

from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from towerpack_dataflow import ArgumentError
from towerpack_dataflow.batch.planners._plan import EpochPlan, Plan
from towerpack_dataflow.flow._epoch import Epoch

SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=12)


def plan(groups, classes=None, order=None):
    """Makes a plan of groups and classes of these sizes, over datapoints that are called 1000 and up."""
    size = sum(groups)
    order = np.arange(size) + 1000 if order is None else np.array(order)
    starts = np.cumsum([0, *(classes or [size])[:-1]])
    return Plan(order, starts, np.arange(size), np.cumsum([0, *groups]))


def members_of(made, epoch=0, shuffle=True):
    of_epoch = EpochPlan(made, Epoch(5, epoch), shuffle)
    return [of_epoch.members(index) for index in range(len(made))]


def halved(groups, missing):
    """Halves the `missing` largest groups of a list, the first of equals first; the smaller half leads."""
    largest = sorted(range(len(groups)), key=lambda number: (-groups[number], number))[:missing]
    return [
        part
        for number, size in enumerate(groups)
        for part in ([size // 2, size - size // 2] if number in largest and size > 1 else [size])
    ]


@given(groups=SIZES, multiple_of=st.integers(1, 7))
def test_the_largest_groups_are_halved(groups, multiple_of):
    expected = groups
    while missing := -len(expected) % multiple_of:
        before, expected = expected, halved(expected, missing)
        if before == expected:
            with pytest.raises(
                ArgumentError, match=rf"^multiple_of={multiple_of}: the plan has {len(groups)} "
            ):
                plan(groups).divided(multiple_of)
            return
    made = plan(groups)
    divided = made.divided(multiple_of)
    assert divided.sizes().tolist() == expected
    assert len(divided) == len(expected)
    ends = np.cumsum(expected)
    assert members_of(divided, shuffle=False) == [
        made.order[end - size : end].tolist() for end, size in zip(ends, expected)
    ]


@given(groups=SIZES, data=st.data())
def test_members_stand_in_slots_of_their_class(groups, data):
    size = sum(groups)
    cuts = sorted(data.draw(st.sets(st.integers(1, size - 1)))) if size > 1 else []
    classes = np.diff([0, *cuts, size]).tolist()
    made = plan(groups, classes)
    class_of = np.repeat(range(len(classes)), classes)
    shuffled = members_of(made)
    assert sorted(chain.from_iterable(shuffled)) == made.order.tolist()

    def kinds(members):
        return sorted(tuple(class_of[member - 1000].item() for member in group) for group in members)

    assert kinds(shuffled) == kinds(members_of(made, shuffle=False))
    assert members_of(made) == shuffled


@pytest.mark.parametrize("classes", [[100], [2] * 50, [60, 40], [1, 2, 97], [97, 2, 1]])
def test_every_class_of_two_or_more_changes_places_in_some_epoch(classes):
    made = plan([10] * 10, classes)
    firsts = np.cumsum([0, *classes])
    moved = set()
    for epoch in range(8):
        of_epoch = EpochPlan(made, Epoch(5, epoch), shuffle=True)
        exchanged = of_epoch._exchanged(np.arange(100))
        moved |= set(np.flatnonzero(exchanged != np.arange(100)).tolist())
    for first, size in zip(firsts, classes):
        slots = set(range(first, first + size))
        assert len(moved & slots) == (0 if size == 1 else size)


def test_classes_do_not_move_alike():
    exchanged = EpochPlan(plan([8] * 8, [8] * 8), Epoch(5, 0), shuffle=True)._exchanged(np.arange(64))
    assert len({tuple(row) for row in (exchanged.reshape(8, 8) - np.arange(0, 64, 8)[:, None]).tolist()}) > 4


def test_groups_change_places_and_members_come_from_the_order():
    made = plan([1] * 50, [1] * 50, order=np.arange(50)[::-1])
    assert members_of(made, shuffle=False) == [[number] for number in reversed(range(50))]
    assert members_of(made) != members_of(made, shuffle=False)
    assert members_of(made) != members_of(made, epoch=1)
    assert sorted(members_of(made)) == [[number] for number in range(50)]
