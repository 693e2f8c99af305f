"""Copying a random generator into several workers logs a warning that names it; others log nothing."""

import functools
import logging
import random
import sys
import time

import cloudpickle
import numpy as np
import pytest

from towerpack_dataflow import (
    AugmentImageComponent,
    BatchData,
    DataFlow,
    DataFromList,
    FilterData,
    MapData,
    MultiProcessMapData,
    MultiProcessRunner,
    RNGDataFlow,
    augment,
)
from towerpack_dataflow.runtime.transport import dump_payload, warn_of_captured

cloudpickle.register_pickle_by_value(sys.modules[__name__])

GLOBAL = np.random.default_rng(0)
from_random = random.random
from_numpy = np.random.random


def in_closure(rng):
    return lambda datapoint: [datapoint[0] + rng.random()]


def in_nested_function(rng):
    def outer(datapoint):
        def inner():
            return rng.random()

        return [inner()]

    return outer


def in_default(rng):
    def func(datapoint, numbers=rng):
        return [numbers.random()]

    return func


def in_keyword_default(rng):
    def func(datapoint, *, numbers=rng):
        return [numbers.random()]

    return func


class Noise:
    def __init__(self, rng):
        self.parts = {"rng": [rng]}

    def __call__(self, datapoint):
        return [self.parts["rng"][0].random()]

    def method(self, datapoint):
        return self(datapoint)


class Slotted:
    __slots__ = "rng"

    def __init__(self, rng):
        self.rng = rng

    def __call__(self, datapoint):
        return [self.rng.random()]


class OfClass:
    def __call__(self, datapoint):
        return [self.rng.random()]


def in_class(rng):
    OfClass.rng = rng
    return OfClass()


def in_attribute_of_function(rng):
    def func(datapoint):
        return [func.rng.random()]

    func.rng = rng
    return func


def of_global(datapoint):
    return [GLOBAL.random()]


def of_global_in_nested_function(datapoint):
    return sorted(datapoint, key=lambda _: GLOBAL.random())


class UsesGlobal:
    def __call__(self, datapoint):
        return of_global(datapoint)


PLACES = [
    in_closure,
    in_nested_function,
    in_default,
    in_keyword_default,
    in_class,
    in_attribute_of_function,
    Noise,
    Slotted,
    lambda rng: Noise(rng).method,
    lambda rng: functools.partial(in_default(None), numbers=rng),
    lambda rng: functools.partial(lambda numbers, datapoint: [numbers.random()], rng),
    lambda rng: functools.wraps(in_closure(rng))(in_closure(rng)),
]
GENERATORS = [np.random.default_rng(1), np.random.RandomState(1), random.Random(1)]


def warnings_of(flow, caplog):
    """Returns the warnings for each way to hand a flow over."""
    contents = {flow._name(): flow}
    found = []
    for hand_over in (lambda: dump_payload(flow, contents, several=True), lambda: warn_of_captured(contents)):
        caplog.clear()
        hand_over()
        found.append([record.getMessage() for record in caplog.records])
    return found


def source():
    return DataFromList([[number] for number in range(16)])


@pytest.mark.parametrize("rng", GENERATORS, ids=lambda rng: type(rng).__name__)
@pytest.mark.parametrize("place", PLACES)
def test_a_generator_is_found_wherever_a_function_keeps_it(place, rng, caplog):
    flow = BatchData(MapData(source(), place(rng)), 2)
    for warnings in warnings_of(flow, caplog):
        (text,) = warnings
        assert text.startswith("each worker gets a copy of a random generator")
        assert "BatchData(2) > MapData(" in text
        assert "rng=True in MapData" in text
        assert repr(rng)[:20] in text


@pytest.mark.parametrize("function", [GLOBAL.permutation, np.random.PCG64(0).random_raw])
def test_a_method_of_a_generator_as_the_function(function, caplog):
    assert all(map(len, warnings_of(MapData(source(), function), caplog)))


@pytest.mark.parametrize("function", [of_global, of_global_in_nested_function, UsesGlobal()])
def test_a_generator_of_the_users_module(function, caplog):
    for (text,) in warnings_of(MapData(source(), function), caplog):
        assert "global 'GLOBAL' of" in text


class OfFlow(DataFlow):
    def __init__(self):
        self.numbers = np.random.default_rng(0)

    def __len__(self):
        return 3

    def datapoint(self, epoch, index):
        return [self.numbers.random()]


def test_a_generator_of_a_flow(caplog):
    for (text,) in warnings_of(BatchData(OfFlow(), 1), caplog):
        assert "BatchData(1) > OfFlow.numbers: Generator(PCG64)" in text


def test_global_generators_that_a_pickle_copies_and_a_fork_does_not(caplog):
    for function in (lambda datapoint: [from_random()], lambda datapoint: [from_numpy()]):
        pickled, forked = warnings_of(MapData(source(), function), caplog)
        assert len(pickled) == 1
        assert not forked


class OfPass(RNGDataFlow):
    def __iter__(self):
        yield [self.rng.random()]


def augmented():
    augmentors = [augment.Flip(horiz=True), augment.GaussianNoise()]
    for augmentor in augmentors:
        augmentor.augment(np.zeros((2, 2, 3), np.uint8))
    return AugmentImageComponent([[np.zeros((2, 2, 3), np.uint8)]], augmentors)


UNSUSPICIOUS = {
    "generator of the datapoint": lambda: MapData(source(), lambda datapoint, rng: [rng.random()], rng=True),
    "global functions": lambda: MapData(source(), lambda datapoint: [np.random.random(), random.random()]),
    "generator of the pass": OfPass,
    "augmentors": augmented,
    "made in the function": lambda: MapData(
        source(), lambda datapoint: [np.random.default_rng(datapoint[0]).random()]
    ),
    "class of generators": lambda: MapData(
        source(), lambda datapoint, kind=random.Random: [kind(1).random()]
    ),
    "no generator": lambda: FilterData(source(), lambda datapoint: datapoint[0] > 3),
}


@pytest.mark.parametrize("make", UNSUSPICIOUS.values(), ids=UNSUSPICIOUS)
def test_nothing_is_said_of_others(make, caplog):
    flow = make()
    list(flow)
    assert warnings_of(flow, caplog) == [[], []]


def test_a_generator_without_a_state_is_shared_by_forks(caplog):
    numbers = random.SystemRandom()
    warn_of_captured({"func": lambda datapoint: [numbers.random()]})
    assert not caplog.records


def test_looking_for_them_takes_no_time(caplog):
    rows = [[{"name": str(number), "values": list(range(10))}] for number in range(20_000)]
    flow = MapData(DataFromList(rows), lambda datapoint: datapoint)
    began = time.thread_time()
    warn_of_captured({"flow": flow})
    assert time.thread_time() - began < 0.5


def shared(method, workers, make=lambda flow: flow):
    flow = MapData(source(), in_closure(np.random.default_rng(0)))
    with MultiProcessRunner(make(flow), workers, start_method=method) as runner:
        list(runner)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_runners_warn_once_and_only_where_several_workers_make_datapoints(caplog):
    with caplog.at_level(logging.WARNING, "towerpack_dataflow"):
        shared("fork", 1)
        shared("fork", 2, lambda flow: FilterData(flow, lambda datapoint: True))
        shared("thread", 2)
        assert not caplog.records
        for method in ("fork", "spawn"):
            caplog.clear()
            shared(method, 2)
            assert len(caplog.records) == 1
        caplog.clear()
        function = in_closure(np.random.default_rng(0))
        with MultiProcessMapData(source(), 2, function, start_method="fork") as mapped:
            list(mapped)
        (record,) = caplog.records
        assert "func > variable 'rng' of in_closure" in record.getMessage()
