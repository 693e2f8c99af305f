"""Fixtures of the tests of the full stack, without TensorFlow, which some environments lack."""

import importlib.util
import os
import runpy
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples"


def load(path):
    """A script as a module, by its path: tests cannot import one another."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def demo():
    """The module of the demo."""
    return load(EXAMPLES / "digits_lenet.py")


@pytest.fixture(scope="session")
def own_trainer():
    """The module of the trainer that is written outside of the wheels."""
    return load(EXAMPLES / "own_trainer.py")


@pytest.fixture(scope="session")
def resnet_example():
    """The module of the residual networks."""
    return load(EXAMPLES / "images" / "residual_networks.py")


@pytest.fixture
def image_example(monkeypatch):
    """The modules of the examples of images, by name; they import one another."""
    monkeypatch.syspath_prepend(str(EXAMPLES / "images"))
    return importlib.import_module


@pytest.fixture
def run_image_example(image_example, monkeypatch, capsys, tmp_path):
    """Runs a script in this process, in an empty directory; returns the last line that it prints."""
    monkeypatch.chdir(tmp_path)

    def to_the_end(script, *arguments):
        monkeypatch.setattr(sys, "argv", [script, *map(str, arguments)])
        runpy.run_path(str(EXAMPLES / "images" / script), run_name="__main__")
        return capsys.readouterr().out.splitlines()[-1]

    return to_the_end


@pytest.fixture
def detection_example(monkeypatch):
    """The modules of the example of detection, by name; they import one another."""
    monkeypatch.syspath_prepend(str(EXAMPLES / "detection"))
    return importlib.import_module


@pytest.fixture
def run_example_of(monkeypatch, capsys, tmp_path):
    """Runs a script of a folder in this process, in an empty directory; returns the last line it prints."""
    monkeypatch.chdir(tmp_path)

    def to_the_end(folder, script, *arguments):
        monkeypatch.syspath_prepend(str(EXAMPLES / folder))
        monkeypatch.setattr(sys, "argv", [script, *map(str, arguments)])
        runpy.run_path(str(EXAMPLES / folder / script), run_name="__main__")
        return capsys.readouterr().out.splitlines()[-1]

    return to_the_end


@pytest.fixture(scope="session")
def gan_example():
    """The modules of the examples of adversarial networks, by name; they import one another."""
    folder = str(EXAMPLES / "gan")
    sys.path.insert(0, folder)
    yield importlib.import_module
    sys.path.remove(folder)


@pytest.fixture
def rl_example():
    """The modules of the examples of agents, by name; they import one another.

    One has the name of another folder's.
    """
    folder = EXAMPLES / "rl"
    names = [path.stem for path in folder.glob("*.py")]
    others = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    sys.path.insert(0, str(folder))
    yield importlib.import_module
    sys.path.remove(str(folder))
    for name in names:
        sys.modules.pop(name, None)
    sys.modules.update(others)


@pytest.fixture(scope="session")
def training():
    """The module of the training that other processes run too."""
    return load(HERE / "training.py")


@pytest.fixture(scope="session")
def golden():
    """The module of the trainings with checkpoints in `golden/`."""
    return load(HERE / "golden" / "golden_training.py")


@pytest.fixture(scope="session")
def migration():
    """The folder of scripts in Tensorpack's style."""
    return HERE / "migration"


@pytest.fixture
def start(tmp_path):
    """Starts a script of this folder or an example in a new process, in an empty directory."""
    processes = []

    def begin(script, *arguments):
        path = next(path for path in (HERE / script, EXAMPLES / script) if path.exists())
        process = subprocess.Popen(
            [sys.executable, str(path), *map(str, arguments)],
            cwd=tmp_path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
            # Background processes of shells ignore Ctrl-C, and so do their child processes.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        processes.append(process)
        return process

    yield begin
    for process in processes:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            stream.close()


@pytest.fixture
def run(start):
    """Runs a script to its end, checks its exit status, and returns its output and its errors."""

    def to_the_end(script, *arguments):
        process = start(script, *arguments)
        output, errors = process.communicate(timeout=250)
        assert process.returncode == 0, errors
        return output, errors

    return to_the_end


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    """A separate browser without network requests."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or pytest.fail("Debian's package chromium is missing")
    flags = "headless no-sandbox disable-gpu disable-quic no-first-run disable-background-networking"
    for flag in [*flags.split(), "disable-component-update", "disable-sync", "window-size=1300,900"]:
        options.add_argument(f"--{flag}")
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(
        shutil.which("chromedriver") or pytest.fail("chromium-driver is missing")
    )
    driver = webdriver.Chrome(options=options, service=service)
    yield driver
    driver.quit()
