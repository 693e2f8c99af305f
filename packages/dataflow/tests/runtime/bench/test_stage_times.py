import subprocess
import sys

import numpy as np
import pytest

from towerpack_dataflow import (
    BatchData,
    DataFlow,
    DataFromGenerator,
    DataFromList,
    Diagnosis,
    MapData,
    MultiProcessMapData,
    MultiProcessRunner,
    PrintData,
    ProxyDataFlow,
    RepeatedData,
    ShardData,
    SpeedResult,
    TestDataSpeed,
)
from towerpack_dataflow.runtime.bench._bottleneck import Stage, measured_stages, stage_timers
from towerpack_dataflow.runtime.bench._data_speed import process_tree, proportional_memory


@pytest.fixture
def clock(monkeypatch):
    """Time that passes only in the functions below."""

    class Clock:
        now = computed = 0.0

        def work(self, seconds, computing=True):
            self.now += seconds
            self.computed += seconds * computing

    clock = Clock()
    module = "towerpack_dataflow.runtime._stage_timer"
    monkeypatch.setattr(f"{module}.perf_counter", lambda: clock.now)
    monkeypatch.setattr(f"{module}.thread_time", lambda: clock.computed)
    return clock


def measured(flow):
    root = ProxyDataFlow(flow)
    root.seed(0)
    before = dict(vars(root))
    with stage_timers(root) as timers:
        datapoints = list(root)
    assert vars(root)["ds"] is before["ds"]
    return datapoints, measured_stages(timers)


def test_each_flow_has_its_own_time(clock):
    def compute(dp):
        clock.work(1)
        return dp

    def read(dp):
        clock.work(4, computing=False)
        return dp

    def source():
        for i in range(6):
            clock.work(2)
            yield [i]

    flow = BatchData(MapData(MapData(DataFromGenerator(source), read), compute), 3)
    _, found = measured(flow)
    names = ["BatchData(3)", f"MapData({compute.__qualname__})", f"MapData({read.__qualname__})"]
    assert found == [
        Stage(names[0], 0, 0, 2, 0.0, 0.0, 42.0),
        Stage(names[1], 1, 0, 6, 6.0, 6.0, 36.0),
        Stage(names[2], 2, 0, 6, 24.0, 0.0, 12.0),
        Stage("DataFromGenerator", 3, 0, 6, 12.0, 12.0, 0.0),
    ]


class Both(DataFlow):
    def __init__(self, *parts):
        self.parts = parts

    def __iter__(self):
        for part in self.parts:
            yield from part


@pytest.mark.parametrize(
    "make",
    [
        lambda: Both(DataFromList(range(9)), MapData(DataFromList(range(5)), str)),
        lambda: RepeatedData(PrintData(ShardData(DataFromList(range(20)), 1, 3)), 2),
        lambda: MapData(MapData(DataFromList(range(9)), lambda dp: dp if dp % 2 else None, drops=True), str),
        lambda: BatchData(MapData([[1], [2], [3]], lambda dp, rng: [dp[0], rng.random()], rng=True), 2),
    ],
)
def test_watching_changes_nothing(make, capsys):
    plain = ProxyDataFlow(make())
    plain.seed(0)
    datapoints, found = measured(make())
    assert list(map(repr, datapoints)) == list(map(repr, plain))
    assert all(stage.datapoints for stage in found)


def test_everything_is_put_back_after_an_error():
    flow = Both(MapData([0], lambda dp: 1 / dp))
    part = flow.parts[0]
    with pytest.raises(ZeroDivisionError):
        measured(flow)
    assert flow.parts == (part,)
    assert type(part.ds) is DataFromList


def test_the_work_of_workers_is_measured_here():
    flow = MultiProcessRunner(BatchData(MapData(DataFromList([[i] for i in range(9)]), list), 3), 2)
    _, found = measured(flow)
    assert [(stage.name, stage.workers) for stage in found] == [
        ("BatchData(3)", 2),
        ("MapData(list)", 2),
        ("DataFromList", 2),
    ]
    _, found = measured(BatchData(MultiProcessMapData(DataFromList([[i] for i in range(9)]), 3, list), 3))
    assert [stage.workers for stage in found] == [0, 3, 0]
    assert flow._worker_pool is None


def diagnosis(*rows, consumer=0.0, addressable=True):
    found = tuple(
        Stage(f"flow {number}", number, workers, 10, busy, computing, 0.0)
        for number, (workers, busy, computing) in enumerate(rows)
    )
    return Diagnosis(SpeedResult(10, 1.0, 80), found, addressable, consumer)


def test_the_bottleneck_takes_longest_with_its_workers():
    assert diagnosis((0, 0.3, 0.3), (0, 0.9, 0.9)).bottleneck.name == "flow 1"
    assert diagnosis((0, 0.3, 0.3), (4, 0.9, 0.9)).bottleneck.name == "flow 0"


def test_workers_serve_the_consumer_and_the_flows_in_its_process():
    assert diagnosis((0, 0.5, 0.0), (0, 0.5, 0.0), consumer=0.05).suggestion.workers == 2
    assert diagnosis((0, 0.5, 0.0), (1, 0.9, 0.0), consumer=0.0).suggestion.workers == 2


def test_the_report():
    text = str(diagnosis((0, 0.2, 0.1), (0, 0.8, 0.0), consumer=0.02, addressable=False))
    assert text.splitlines() == [
        "10 datapoints in 1.00 s: 10 datapoints/s, 0.0 MB/s",
        "each flow, measured in one process:",
        "  flow      datapoints   busy each  computing  waits below  workers",
        "  flow 0            10     20.0 ms        50%           0%        -",
        "    flow 1          10     80.0 ms         0%           0%        -",
        "bottleneck: flow 1, 80% of the time, mostly waiting for files, network or threads",
        "suggestion: 5 workers: enough for a consumer that takes 20.0 ms for a datapoint",
        "this flow is a stream, which one worker reads at a time: to use the others, put the slow "
        "functions into MultiProcessMapData",
    ]


def test_diagnose_leaves_the_flow_as_it_was(capsys):
    flow = TestDataSpeed(
        BatchData(MapData(DataFromList([[i] for i in range(90)]), list), 3), size=20, warmup=2
    )
    flow.seed(1)
    state = flow.state_dict()
    found = flow.diagnose(consumer=1.0)
    assert found.result.datapoints == 20
    assert found.result.memory > 10e6
    assert [stage.datapoints for stage in found.stages] == [22, 66, 66]
    assert found.suggestion.workers in {0, 1}
    assert capsys.readouterr().out == f"TestDataSpeed: {found}\n"
    assert flow.state_dict() == state


def test_memory_counts_shared_pages_once_and_workers_too():
    held = np.ones(2**24, np.uint8)
    code = "import sys; print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        child.stdout.readline()
        processes = process_tree()
        assert set(processes) >= {child.pid}
        together = proportional_memory(processes)
        assert together >= proportional_memory([child.pid]) + held.nbytes
        child.stdin.close()
    assert child.pid not in process_tree()
    assert proportional_memory([child.pid]) == 0
