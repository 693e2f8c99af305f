import queue
import sys
import threading

import pytest

from towerpack_inputsource.prefetch._flow_reader import FlowReader
from towerpack_inputsource.prefetch._input_status import Activity
from towerpack_inputsource.prefetch._prefetch_thread import Pump
from towerpack_inputsource.testing import _Flow as Flow
from towerpack_inputsource.testing import _FlowError as FlowError


class Closed(Exception):
    pass


class Recorder:
    """A pump into a Python queue, and what it reported."""

    def __init__(self, flow, put=None, in_flight=None, infinite=False, rest=lambda waited: 0.0):
        self.reports = []
        self.items = queue.Queue()
        reader = FlowReader(flow, infinite, list, KeyError)
        self.pump = Pump(
            reader,
            reader.restart(),
            put or self.items.put,
            (Closed,),
            in_flight,
            rest,
            lambda: self.reports.append("end"),
            lambda: self.reports.append("closed"),
            self.reports.append,
            Activity("towerpack-test"),
        )

    def run(self):
        self.pump.start()
        self.pump.join(10)
        assert not self.pump.is_alive()
        return self.reports


def test_moves_everything_and_reports_the_end():
    recorder = Recorder([[0], [1], [2]])
    assert recorder.run() == ["end"]
    assert list(recorder.items.queue) == [0, 1, 2]


def test_reports_an_error_with_its_traceback():
    [(kind, error, traceback)] = Recorder(Flow([[0], [1]], fails_at=1)).run()
    assert kind is FlowError and error.__traceback__ is traceback
    while traceback.tb_next:
        traceback = traceback.tb_next
    assert traceback.tb_frame.f_code.co_name == "_pass"


def test_even_an_exit_is_reported():
    class Exits:
        def __iter__(self):
            yield [0]
            sys.exit(3)

    [(kind, _, _)] = Recorder(Exits()).run()
    assert kind is SystemExit


def test_somebody_closed_the_queue():
    def put(_):
        raise Closed

    assert Recorder([[0]], put).run() == ["closed"]


def test_stops_when_asked_without_a_report():
    def put(_):
        recorder.pump.ask_to_stop()
        raise Closed

    recorder = Recorder([[0]], put)
    assert recorder.run() == []


def test_a_rest_ends_at_once_when_asked_to_stop():
    def rest(waited):
        threading.Timer(0.05, recorder.pump.ask_to_stop).start()
        return 60.0

    recorder = Recorder([[0], [1]], rest=rest)
    assert recorder.run() == []
    assert list(recorder.items.queue) == [0]


@pytest.mark.parametrize("in_flight", [None, 4])
def test_position_of_the_consumer(in_flight):
    recorder = Recorder(Flow([[k] for k in range(10)]), in_flight=in_flight)
    recorder.run()
    for consumed in range(0 if in_flight is None else 6, 11):
        assert recorder.pump.position(consumed) == {"next": consumed}
    assert len(recorder.pump._positions) == 1
