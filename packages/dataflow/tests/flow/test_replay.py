"""A resumed stream with a long replay logs a warning with a remedy."""

import logging
import re
import sys

import cloudpickle
import numpy as np
import pytest

from towerpack_dataflow import (
    ArgumentTypeError,
    BatchDataByShape,
    DataFlow,
    DataFromGenerator,
    DataFromIterable,
    DataFromList,
    FilterData,
    FixedSizeData,
    JoinData,
    MapData,
    MultiProcessMapData,
    MultiProcessRunner,
    MultiThreadRunner,
    RandomChooseData,
    RandomMixData,
    RepeatedData,
)
from towerpack_dataflow.flow import _resume_marks
from towerpack_dataflow.testing import check_dataflow

cloudpickle.register_pickle_by_value(sys.modules[__name__])

SIZE = 20


def numbers():
    return ([number] for number in range(SIZE))


class Stream(DataFlow):
    def __iter__(self):
        yield from numbers()


class Live(Stream):
    live = True


def generator():
    return DataFromGenerator(numbers)


def as_array(datapoint):
    return [np.ones(1)]


def even(datapoint):
    return datapoint[0] % 2 == 0


STREAMS = {
    "own class": Stream,
    "generator": generator,
    "iterable": lambda: DataFromIterable({number: [number] for number in range(SIZE)}.values()),
    "one-shot": lambda: DataFromIterable(numbers()),
    "batched by shape": lambda: BatchDataByShape(
        MapData(generator(), lambda dp: [__import__("numpy").ones(1)]), 1, 0
    ),
    "mixed": lambda: RandomMixData([FixedSizeData(generator(), SIZE), FixedSizeData(generator(), SIZE)]),
    "chosen": lambda: RandomChooseData([generator(), generator()]),
    "joined": lambda: JoinData([generator(), generator()]),
    "repeated": lambda: RepeatedData(generator(), 2),
    "fixed size": lambda: FixedSizeData(generator(), 30),
    "filtered list": lambda: FilterData(DataFromList([[number] for number in range(SIZE)]), even),
}


def resumed(flow, index):
    flow.seed(0)
    state = {**flow.state_dict(), "index": index}
    state.pop("marks", None)
    flow.load_state_dict(state)
    return flow


def replays(caplog):
    return [record.getMessage() for record in caplog.records if "again and drops them" in record.getMessage()]


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(_resume_marks, "_LONG", 0.0)


@pytest.mark.parametrize("kind", STREAMS)
def test_a_long_replay_is_a_warning(kind, at_once, caplog):
    list(resumed(STREAMS[kind](), 5))
    texts = replays(caplog)
    assert len(texts) == (2 if kind in {"chosen", "joined"} else 1)
    counts = [int(re.search(r"makes the first (\d+) datapoints of epoch 0 again", text)[1]) for text in texts]
    assert sum(counts) == (10 if kind == "joined" else 5)
    text = texts[0]
    assert "the first 1 took" in text
    assert "live=True in DataFromGenerator or DataFromIterable, or live = True in a custom class" in text


@pytest.mark.parametrize("kind", STREAMS)
def test_a_short_one_and_a_pass_from_the_beginning_are_not(kind, monkeypatch, caplog):
    list(resumed(STREAMS[kind](), 5))
    monkeypatch.setattr(_resume_marks, "_LONG", 0.0)
    list(STREAMS[kind]())
    assert not replays(caplog)


@pytest.mark.parametrize(
    "make",
    [
        lambda: MultiProcessRunner(generator(), 1, start_method="fork"),
        lambda: MultiThreadRunner(generator(), 1),
        lambda: MultiProcessMapData(
            FilterData(generator(), even), 1, lambda dp: dp, start_method="fork", drops=True
        ),
    ],
    ids=["process", "thread", "map"],
)
def test_so_it_is_in_workers(make, at_once, caplog):
    with caplog.at_level(logging.WARNING, "towerpack_dataflow"), make() as flow:
        list(resumed(flow, 5))
    assert replays(caplog)


@pytest.mark.parametrize(
    "make", [Live, lambda: DataFromGenerator(numbers, live=True), lambda: DataFromIterable([[1]], live=True)]
)
def test_a_live_flow_is_not_replayed(make, at_once, caplog):
    flow = make()
    assert flow.live
    expected = list(flow)
    assert flow.state_dict() == {}
    flow.load_state_dict(flow.state_dict())
    assert list(flow) == expected
    assert not replays(caplog)


def test_a_live_generator_is_shown_and_checked():
    assert repr(DataFromGenerator(numbers, live=True)) == "DataFromGenerator(gen=numbers, live=True)"
    assert repr(generator()) == "DataFromGenerator(gen=numbers)"
    check_dataflow(lambda: DataFromGenerator(numbers, live=True))
    with pytest.raises(ArgumentTypeError, match="live is True or False; received 'no'"):
        DataFromGenerator(numbers, live="no")
