import signal
import subprocess
import sys

import pytest

from towerpack_dataflow.__main__ import main

FLOWS = """
from towerpack_dataflow import BatchData, DataFromGenerator, DataFromList, RepeatedData

def make():
    return BatchData(DataFromList([[i] for i in range(100)]), 5)

flow = make()
plain = [[1], [2], [3]] * 10
number = 3
empty = DataFromList([])
short = [[1], [2]]
endless = RepeatedData(short, -1)

def needs(size):
    return flow

def stopped():
    import os, signal
    def work():
        yield [1]
        os.kill(os.getpid(), signal.SIGINT)
        while True:
            yield [1]
    return DataFromGenerator(work)
"""


@pytest.fixture
def flows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flows_to_measure.py").write_text(FLOWS)
    yield "flows_to_measure"
    sys.modules.pop("flows_to_measure", None)


@pytest.mark.parametrize("name", ["make", "flow", "plain"])
@pytest.mark.parametrize("ending", ["", ".py"])
def test_bench(flows, name, ending, capsys):
    assert main(["bench", f"{flows}{ending}:{name}", "--size", "7", "--warmup", "1"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("TestDataSpeed: 7 datapoints in ")
    assert "bottleneck: " in out
    assert "suggestion: " in out


@pytest.mark.parametrize(
    "address, message",
    [
        (
            "flows_to_measure",
            "MODULE:NAME expected, like my_project.data:train_flow; received 'flows_to_measure'",
        ),
        ("flows_to_measure:nothing", "flows_to_measure defines no nothing"),
        ("flows_to_measure:number", "flows_to_measure:number is int, neither a flow"),
        ("flows_to_measure:empty", "nothing to time: DataFromList yielded 0 datapoints"),
        ("flows_to_measure:needs", "flows_to_measure:needs cannot be called without arguments (missing a"),
        ("no_such.module:flow", "there is no module no_such.module, searched from "),
        ("no_such.py:flow", "there is no file no_such.py"),
    ],
)
def test_errors_are_one_line(flows, address, message, capsys):
    assert main(["bench", address]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"error: {message}")
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_short_flows_are_measured_as_they_are(flows, capsys):
    assert main(["bench", f"{flows}:short"]) == 0
    assert "2 datapoints in" in capsys.readouterr().out
    assert main(["bench", f"{flows}:short", "--warmup", "2"]) == 2
    assert "DataFromList yielded 2 datapoints, all of them to warm up: warmup=2" in capsys.readouterr().err


def test_time_is_limited(flows, capsys):
    assert main(["bench", f"{flows}:endless", "--size", "1000000000", "--seconds", "0.05"]) == 0
    assert "suggestion: " in capsys.readouterr().out
    assert main(["bench", f"{flows}:endless", "--seconds", "0"]) == 2
    assert "seconds is a number above 0" in capsys.readouterr().err


def test_control_c_ends_it_with_one_word(flows, capsys):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell ignores it
    try:
        assert main(["bench", f"{flows}:stopped"]) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr() == ("", "interrupted\n")


def test_a_missing_import_of_the_module_is_shown_as_it_is(flows, tmp_path):
    (tmp_path / "flows_to_measure.py").write_text("import no_such_thing")
    with pytest.raises(ModuleNotFoundError, match="no_such_thing"):
        main(["bench", "flows_to_measure:flow"])


@pytest.mark.slow
def test_from_the_shell(flows):
    command = [sys.executable, "-m", "towerpack_dataflow", "bench", f"{flows}:make", "--consumer-ms", "5"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "TestDataSpeed: 18 datapoints in" in done.stdout
    assert done.stderr == ""
