"""Copies of nested values have lists, tuples, named tuples and dicts, as the values have."""

from collections import OrderedDict, namedtuple

import pytest

from towerpack_dataflow.interop._nested import joined, leaves, mapped

Point = namedtuple("Point", "x y")


class Words(list):
    pass


class Pair(tuple):
    __slots__ = ()


VALUES = {
    "list": ([1, [2]], [1, [2]]),
    "subclass of list": (Words([1, Words([2])]), [1, [2]]),
    "subclass of tuple": (Pair([1, (2,)]), (1, (2,))),
    "named tuple": (Point(1, {"a": 2}), Point(1, {"a": 2})),
    "subclass of dict": (OrderedDict(b=1, a=[2]), {"b": 1, "a": [2]}),
}


def same_kinds(one, other):
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same_kinds(one[key], other[key]) for key in one)
    return not isinstance(one, (list, tuple)) or all(map(same_kinds, one, other))


@pytest.mark.parametrize("name", VALUES)
def test_subclasses_become_the_types_themselves(name):
    value, expected = VALUES[name]
    made = mapped(value, lambda leaf, _: leaf)
    assert made == expected
    assert same_kinds(made, expected)
    found = []
    structure = leaves(value, found)
    made = joined(structure, iter([leaf for _, leaf in found]))
    assert made == expected
    assert same_kinds(made, expected)
