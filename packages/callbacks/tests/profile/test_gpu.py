"""GPU trackers, with a fake driver."""

import sys
import threading
import types
from pathlib import Path

import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, GPUMemoryTracker, GPUUtilizationTracker


class Driver(types.ModuleType):
    """Stands for `pynvml` on a host with two GPUs, the second always 50 percent busy."""

    class NVMLError(Exception):
        """The errors of NVIDIA's library."""

    def __init__(self, devices=2, error=None):
        super().__init__("pynvml")
        self.devices, self.error, self.samples = devices, error, 0
        self.sampled = threading.Event()

    def nvmlInit(self):
        if not self.devices:
            raise self.NVMLError("Driver Not Loaded")

    def nvmlDeviceGetCount(self):
        return self.devices

    def nvmlDeviceGetHandleByIndex(self, index):
        return index

    def nvmlDeviceGetUtilizationRates(self, handle):
        if self.error is not None:
            raise self.error
        return types.SimpleNamespace(gpu=50 if handle else self._next())

    def nvmlDeviceGetMemoryInfo(self, handle):
        return types.SimpleNamespace(used=1_000_000 * (7 if handle else self._next()))

    def _next(self):
        self.samples += 1
        if self.samples >= 4:
            self.sampled.set()
        return min(self.samples, 4)


@pytest.fixture
def driver(monkeypatch):
    """Puts a driver in place of the real one."""

    def install(**arguments):
        driver = Driver(**arguments)
        monkeypatch.setitem(sys.modules, "pynvml", driver)
        return driver

    return install


class Wait(Callback):
    """Makes steps wait until the driver was asked often enough, and keeps what was put."""

    def __init__(self, driver):
        self.driver, self.put = driver, {}

    def _trigger_step(self):
        if self.driver.devices and self.driver.error is None:
            assert self.driver.sampled.wait(60)

    def _after_train(self):
        names = [f"GPUUtil/{k}" for k in range(3)] + [f"GPUMemory/{k}_mb" for k in range(3)]
        monitors = self.trainer.monitors
        self.put = {name: monitors.get_latest(name) for name in names if name in monitors}


def test_utilisation_is_an_average(line, driver):
    played = driver()
    tracker, wait = GPUUtilizationTracker(interval=1e-3), Wait(played)
    line.run([tracker, wait], max_epoch=1)
    assert wait.put["GPUUtil/1"] == 50
    assert 2 < wait.put["GPUUtil/0"] < 4
    assert "towerpack-gpu" not in {thread.name for thread in threading.enumerate()}


def test_memory_is_a_peak_of_the_devices_wanted(line, driver):
    wait = Wait(driver())
    line.run([GPUMemoryTracker(devices=[0], interval=1e-3), wait], max_epoch=1)
    assert wait.put == {"GPUMemory/0_mb": 4.0}


@pytest.mark.parametrize("make", [GPUUtilizationTracker, lambda: GPUMemoryTracker(devices=[0])])
def test_without_a_gpu_they_do_nothing(line, driver, make):
    wait = Wait(driver(devices=0))
    assert line.run([make(), wait]) == 6
    assert not wait.put


def test_without_a_gpu_nothing_needs_to_be_installed(line, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert line.run([GPUUtilizationTracker()]) == 6


def test_with_a_gpu_the_extra_is_required(line, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["a GPU"])
    with pytest.raises(
        ImportError,
        match=r"need nvidia-ml-py, which is not installed: pip install towerpack-callbacks\[gpu\]",
    ):
        line.run([GPUUtilizationTracker()])


def test_a_gpu_that_is_not_there(line, driver):
    driver()
    with pytest.raises(ValueError, match=r"devices=\[5\]\): this host has 2 GPUs, numbered from 0"):
        line.run([GPUMemoryTracker(devices=[5])])


def test_a_driver_that_fails_ends_the_training(line, driver):
    driver(error=Driver.NVMLError("GPU is lost"))
    with pytest.raises(Driver.NVMLError, match="GPU is lost"):
        line.run([GPUUtilizationTracker()])


def test_an_interval_is_above_zero():
    with pytest.raises(ValueError, match=r"interval=0\): expected a number above 0"):
        GPUUtilizationTracker(interval=0)


def test_the_driver_that_is_really_here(line):
    """On a host without NVIDIA's driver the real library, where installed, says so, and that is fine."""
    put = []

    class Look(Callback):
        def _after_train(self):
            names = ("GPUUtil/0", "GPUMemory/0_mb")
            put.extend(name for name in names if name in self.trainer.monitors)

    assert line.run([GPUUtilizationTracker(), GPUMemoryTracker(), Look()]) == 6
    if not Path("/proc/driver/nvidia").exists():
        assert not put
