import json

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_dataflow import DataFlowTerminated, DataFromGenerator, DataFromList, RepeatedData
from towerpack_inputsource import DatapointShapeError, EmptyFlowError, FlowEndError
from towerpack_inputsource.prefetch import FlowReader, as_flow, flow_size, flow_state, loaded_position
from towerpack_inputsource.testing import FlowFailure, ListFlow


class EndLookalike(Exception):
    pass


def reader(flow, infinite=True, check=list):
    return FlowReader(flow, infinite, check, EndLookalike)


def take(reader, count):
    return [reader.dequeue()[0] for _ in range(count)]


def test_passes_repeat():
    walk = reader(ListFlow([[0], [1]]))
    walk.restart()
    assert take(walk, 5) == [0, 1, 0, 1, 0]


def test_one_pass_ends():
    walk = reader([[0], [1]], infinite=False)
    walk.restart()
    assert take(walk, 2) == [0, 1]
    for _ in range(2):
        with pytest.raises(StopIteration):
            walk.dequeue()


def test_a_flow_that_has_terminated_is_at_its_end_and_repeats_no_more(caplog):
    def numbers():
        yield [0]
        yield [1]
        raise DataFlowTerminated("the producer is gone")

    caplog.set_level("INFO", "towerpack_inputsource")
    walk = reader(RepeatedData(DataFromGenerator(numbers), -1))
    walk.restart()
    assert take(walk, 2) == [0, 1]
    with pytest.raises(StopIteration):
        walk.dequeue()
    assert "has terminated: the producer is gone" in caplog.text


def test_restart_in_the_middle_starts_a_new_pass():
    walk = reader(ListFlow([[0], [1], [2]]))
    walk.restart()
    take(walk, 2)
    assert walk.restart() == {"next": 0}
    assert take(walk, 2) == [0, 1]


class TellsLate(ListFlow):
    """A flow with a state that changes only at the first datapoint of a new pass."""

    def __iter__(self):
        start, self._loaded = self._loaded, 0
        for k in range(start, len(self._datapoints)):
            self._next = k + 1
            yield self._datapoints[k]


def test_a_position_of_an_uncertain_pass_is_none():
    walk = reader(TellsLate([[0], [1], [2]]))
    assert walk.restart() == {"next": 0} and walk.restart() == {"next": 0}
    take(walk, 2)
    assert walk.restart() is None
    assert walk.restart({"next": 1}) == {"next": 1}
    assert take(walk, 2) == [1, 2]


def test_a_measured_flow_starts_a_separate_pass():
    flow = DataFromList([[k] for k in range(5)], shuffle=True)
    flow.seed(1)
    next(iter(flow))
    walk = reader(flow)
    origin = walk.restart()
    taken = take(walk, 5)
    assert origin["epoch"] == 1 and origin["index"] == 0
    again = reader(DataFromList([[k] for k in range(5)], shuffle=True))
    again.restart(origin)
    assert take(again, 5) == taken


class Live(ListFlow):
    """A live flow with a separate state."""

    live = True
    asked = 0

    def state_dict(self):
        self.asked += 1
        return {"seen": self._next}

    def load_state_dict(self, state):
        self.loaded = state


def test_a_live_flow_has_no_position():
    flow = Live([[0], [1], [2]])
    walk = reader(flow)
    assert walk.restart() is None
    assert take(walk, 2) == [0, 1] and walk.position() is None and flow.asked == 0
    assert flow_state(flow, None) == {"live": {"seen": 2}}
    assert walk.restart({"seen": 2}) is None and flow.loaded == {"seen": 2}
    assert take(walk, 2) == [0, 1]


def test_states_of_live_flows_and_of_others_are_distinguished(caplog):
    live = Live([[0]])
    assert loaded_position(live, {"live": {"seen": 3}}) == {"seen": 3}
    assert loaded_position(live, {"live": {}}) is None
    with caplog.at_level("INFO", "towerpack_inputsource"):
        assert loaded_position(live, {"flow": {"seed": 1, "epoch": 2, "index": 3}}) is None
    assert "is live; ignoring the position in the saved state" in caplog.text
    with pytest.raises(ValueError, match=r"\['live'\], but a source that reads a flow with a position saves"):
        loaded_position(ListFlow([[0]]), {"live": {}})
    with pytest.raises(ValueError, match=r"\['iterator'\], but .* reads a live flow saves \['live'\]"):
        loaded_position(live, {"iterator": 3})


@pytest.mark.parametrize("steps", range(5))
def test_position_leads_to_the_next_datapoint(steps):
    walk = reader(ListFlow([[0], [1], [2]]))
    origin = walk.restart()
    take(walk, steps)
    position = json.loads(json.dumps(walk.position() if steps else origin))
    again = reader(ListFlow([[0], [1], [2]]))
    assert again.restart(position) == position
    assert take(again, 3) == [(steps + k) % 3 for k in range(3)]


@pytest.mark.parametrize("flow", [[], ListFlow([])])
def test_nothing_to_repeat_is_an_error(flow):
    walk = reader(flow)
    walk.restart()
    with pytest.raises(EmptyFlowError, match=r"Pass 0 over .* gave no datapoint"):
        walk.dequeue()


def test_a_flow_that_dries_up_is_an_error():
    class Once:
        left = [[1]]

        def __iter__(self):
            while self.left:
                yield self.left.pop()

    walk = reader(Once())
    walk.restart()
    walk.dequeue()
    with pytest.raises(EmptyFlowError, match="Pass 1 over"):
        walk.dequeue()


def test_resuming_at_the_end_of_nothing_ends():
    walk = reader(ListFlow([]))
    walk.restart({"next": 0})
    with pytest.raises(EmptyFlowError, match="Pass 1"):
        walk.dequeue()


def test_an_error_names_the_datapoint():
    def check(datapoint):
        if datapoint == ["bad"]:
            raise DatapointShapeError("too long")
        return datapoint

    walk = reader([[0], ["bad"]] * 2, check=check)
    walk.restart()
    take(walk, 1)
    with pytest.raises(
        DatapointShapeError, match=r"^Datapoint 1 \(number 1 of pass 0, all from 0\): too long"
    ):
        walk.dequeue()


def test_an_error_of_the_flow_keeps_its_type():
    walk = reader(ListFlow([[0], [1]], fails_at=1))
    walk.restart()
    walk.dequeue()
    with pytest.raises(FlowFailure) as caught:
        walk.dequeue()
    assert "Datapoint 1" in caught.value.__notes__[0]


def test_an_error_that_takes_no_notes_passes_too():
    class Sealed(RuntimeError):
        def __setattr__(self, name, value):
            raise AttributeError(name)

    class Flow:
        def __iter__(self):
            raise Sealed("as it is")
            yield

    walk = reader(Flow())
    walk.restart()
    with pytest.raises(Sealed, match="as it is"):
        walk.dequeue()


def test_errors_similar_to_an_end_do_not_end_the_run():
    def generate():
        raise EndLookalike("not really")
        yield

    class Flow:
        def __iter__(self):
            return generate()

    walk = reader(Flow())
    walk.restart()
    with pytest.raises(FlowEndError, match=r"Datapoint 0 .* raised EndLookalike \(not really\)") as caught:
        walk.dequeue()
    assert isinstance(caught.value.__cause__, EndLookalike)


def test_as_flow_refuses_objects_with_a_single_pass():
    assert as_flow([1]) == [1]
    with pytest.raises(TypeError, match=r"allows only one pass.*DataFromGenerator"):
        as_flow(iter([1]))
    with pytest.raises(TypeError, match="reads a DataFlow or another iterable, but received 3"):
        as_flow(3)


@pytest.mark.parametrize(
    ("flow", "message"),
    [
        (lambda: iter([]), r"received <function .*write DataFromGenerator\(it\)"),
        (np.zeros((4, 2)), r"Received an array of shape \(4, 2\), but .* DataFromArrays\("),
        ((np.zeros((4, 2)), np.zeros(4)), r"a tuple of 2, the first of them an array of shape \(4, 2\)"),
        (tf.data.Dataset.range(3), r"_RangeDataset.*TFDatasetInput\(dataset\).* data= instead of dataflow="),
    ],
    ids=["function", "array", "arrays", "tf.data"],
)
def test_objects_similar_to_flows_are_refused_before_reading(flow, message):
    with pytest.raises(TypeError, match=message):
        as_flow(flow)


def test_flow_size():
    assert flow_size([1, 2]) == 2
    assert flow_size(ListFlow([[1]], has_length=False)) is None
    assert flow_size(iter([])) is None


def test_loaded_position():
    assert loaded_position(ListFlow([]), {"flow": {"next": 3}}) == {"next": 3}
    assert loaded_position([], {"flow": None}) is None
    with pytest.raises(ValueError, match=r"\['iterator'\], but .* with a position saves \['flow'\]"):
        loaded_position([], {"iterator": 3})
    with pytest.raises(ValueError, match="has no load_state_dict"):
        loaded_position([], {"flow": 3})
