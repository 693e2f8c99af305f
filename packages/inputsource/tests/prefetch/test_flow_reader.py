import json

import pytest

from towerpack_inputsource import DatapointShapeError, EmptyFlowError, FlowEndError
from towerpack_inputsource.prefetch import FlowReader, as_flow, checked_position, flow_size
from towerpack_inputsource.testing import FlowFailure, ListFlow


class EndLookalike(Exception):
    pass


def reader(flow, infinite=True, check=list):
    return FlowReader(flow, infinite, check, EndLookalike)


def take(reader, count):
    return [reader.take()[0] for _ in range(count)]


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
            walk.take()


def test_restart_in_the_middle_starts_a_new_pass():
    walk = reader(ListFlow([[0], [1], [2]]))
    walk.restart()
    take(walk, 2)
    assert walk.restart() is None
    assert take(walk, 2) == [0, 1]


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
        walk.take()


def test_a_flow_that_dries_up_is_an_error():
    class Once:
        left = [[1]]

        def __iter__(self):
            while self.left:
                yield self.left.pop()

    walk = reader(Once())
    walk.restart()
    walk.take()
    with pytest.raises(EmptyFlowError, match="Pass 1 over"):
        walk.take()


def test_resuming_at_the_end_of_nothing_ends():
    walk = reader(ListFlow([]))
    walk.restart({"next": 0})
    with pytest.raises(EmptyFlowError, match="Pass 1"):
        walk.take()


def test_an_error_says_where():
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
        walk.take()


def test_an_error_of_the_flow_keeps_its_type():
    walk = reader(ListFlow([[0], [1]], fails_at=1))
    walk.restart()
    walk.take()
    with pytest.raises(FlowFailure) as caught:
        walk.take()
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
        walk.take()


def test_what_looks_like_an_end_is_not_taken_for_one():
    def generate():
        raise EndLookalike("not really")
        yield

    class Flow:
        def __iter__(self):
            return generate()

    walk = reader(Flow())
    walk.restart()
    with pytest.raises(FlowEndError, match=r"Datapoint 0 .* raised EndLookalike \(not really\)") as caught:
        walk.take()
    assert isinstance(caught.value.__cause__, EndLookalike)


def test_as_flow_refuses_what_cannot_be_read_again():
    assert as_flow([1]) == [1]
    with pytest.raises(TypeError, match=r"can be gone through once only.*DataFromGenerator"):
        as_flow(iter([1]))
    with pytest.raises(TypeError, match="reads a DataFlow or another iterable, but received 3"):
        as_flow(3)


def test_flow_size():
    assert flow_size([1, 2]) == 2
    assert flow_size(ListFlow([[1]], has_length=False)) is None
    assert flow_size(iter([])) is None


def test_checked_position():
    assert checked_position(ListFlow([]), {"flow": {"next": 3}}) == {"next": 3}
    assert checked_position([], {"flow": None}) is None
    with pytest.raises(ValueError, match=r"\['iterator'\], but a source that reads a flow saves \['flow'\]"):
        checked_position([], {"iterator": 3})
    with pytest.raises(ValueError, match="has no load_state_dict"):
        checked_position([], {"flow": 3})
