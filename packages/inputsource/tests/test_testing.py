"""Every source is held to the kit, and the kit notices what it is there for."""

import threading

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_inputsource import DummyConstantInput, FeedInput, InputSource, PlaceholderInput, QueueInput
from towerpack_inputsource.testing import check_input_source

SPECS = [tf.TensorSpec([None, 2], tf.float32, "image"), tf.TensorSpec([], tf.int32, "label")]
DATAPOINTS = [[np.full([k + 1, 2], k, "float32"), k] for k in range(4)]

READERS = {
    "feed": lambda flow: FeedInput(flow, infinite=False),
    "queue": lambda flow: QueueInput(flow, infinite=False),
    "queue of one": lambda flow: QueueInput(flow, capacity=1, infinite=False),
}


@pytest.mark.slow
@pytest.mark.parametrize("make_source", READERS.values(), ids=READERS)
def test_sources_that_read_a_flow(make_source):
    check_input_source(make_source, SPECS, DATAPOINTS)


@pytest.mark.parametrize(
    "make_source", [lambda flow: PlaceholderInput(), lambda flow: DummyConstantInput([(3, 2), ()])]
)
def test_sources_that_read_none(make_source):
    check_input_source(make_source, SPECS)


class Broken(InputSource):
    """A FeedInput with a fault."""

    def __init__(self, flow):
        self.inner = FeedInput(flow, infinite=False)

    def _setup(self, specs):
        self.inner.setup(specs)

    def _get_input_tensors(self, specs):
        return self.inner.get_input_tensors()

    def _hooks(self):
        return self.inner.hooks()


class Shuffled(Broken):
    def _get_input_tensors(self, specs):
        return super()._get_input_tensors(specs)[::-1]


class LeavesThread(Broken):
    stop = threading.Event()

    def _hooks(self):
        self.stop.clear()
        threading.Thread(target=self.stop.wait, name="left-behind", daemon=True).start()
        return super()._hooks()


@pytest.mark.parametrize(
    ("make_source", "broken"),
    [
        (Shuffled, "does not have the declared dtype"),
        (LeavesThread, r"threads \['left-behind'.*live on"),
        (Broken, r"round 1 after reset_state\(\) must give"),
        (
            lambda flow: FeedInput(list(flow) or [[None]], infinite=False),
            r"the state after 1 steps, told in the session must give",
        ),
        (lambda flow: FeedInput(flow), r"a finite pass must give"),
    ],
)
def test_the_kit_notices(make_source, broken, request):
    request.addfinalizer(LeavesThread.stop.set)
    with pytest.raises(AssertionError, match=broken):
        check_input_source(make_source, SPECS, DATAPOINTS)
