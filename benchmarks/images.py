"""Image pipelines for ImageNet compared with their peers, and a network trained on augmented pictures.

    python benchmarks/images.py [--smoke] [decoders] [core] [cores] [training]
    nox -s bench -- images                      with the peers installed

A folder of JPEG files, 500 x 375 pixels each, becomes batches of 64: read, decode, cut out a random part,
resize it to 224 x 224, mirror, change brightness, contrast and saturation in random order, normalise. Each
peer has a process of its own and all of two cores; it is set up as its documents advise (see the modules).
On one core ours are beside a loop of the same calls. Decoding at half the size and decoding what is cut out
alone are rows of their own.

CIFAR-shaped pictures, padded, cut out and mirrored, train a ResNet-20: by SimpleTrainer from a flow and on a
batch that lies in the graph, and by Keras 3 from tf.data in the fastest of several ways.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import _images_files
import _images_resnet
import _processes
import _rounds
import _verdicts
import numpy as np

ROUNDS = _rounds.shorter(5)
PACKAGES = (
    "towerpack-dataflow",
    "numpy",
    "opencv-python-headless",
    "tensorflow",
    "keras",
    "torch",
    "torchvision",
    "albumentations",
    "spdl-io",
)
MOST_GREY_LEVELS = 2.0

# Imported in a separate process: by name, a module and its attribute.
Subject = tuple[str, str]
CORE = {"core": ("_images_ours", "one_core")}
OURS, OURS_HALVED = "ours, processes", "ours, processes, half the size"
CORES: dict[str, Subject] = {
    OURS: ("_images_ours", "processes"),
    "ours, threads": ("_images_ours", "threads"),
    "torchvision": ("_images_torch", "torchvision"),
    "Albumentations": ("_images_torch", "albumentations"),
    "tf.data": ("_images_tf", "batches"),
    "SPDL, OpenCV": ("_images_spdl", "opencv"),
    "SPDL, FFmpeg": ("_images_spdl", "ffmpeg"),
    "tf.data, cut out while decoding": ("_images_tf", "cropped"),
    OURS_HALVED: ("_images_ours", "halved"),
    "Albumentations, half the size": ("_images_torch", "albumentations_halved"),
    "tf.data, half the size": ("_images_tf", "halved"),
    "SPDL, OpenCV, half the size": ("_images_spdl", "opencv_halved"),
}
OF_OURS = ("_images_ours", "_images_bare")
LIMITS = {"torchvision": 1.2, "Albumentations": 1.2, "tf.data": 1.0, "SPDL, OpenCV": 1.0, "SPDL, FFmpeg": 1.0}
DECODERS: dict[str, Subject] = {
    "OpenCV (ours, bare loop, Albumentations)": ("_images_bare", "decode"),
    "torchvision": ("_images_torch", "decode_torchvision"),
    "TensorFlow": ("_images_tf", "decode"),
    "SPDL": ("_images_spdl", "decode"),
    "OpenCV, half the size": ("_images_bare", "decode_halved"),
    "TensorFlow, half the size": ("_images_tf", "decode_halved"),
}


def chosen(subjects: dict[str, Subject]) -> dict[str, Subject]:
    """All subjects; a short run takes none but ours."""
    return {name: way for name, way in subjects.items() if way[0] in OF_OURS or not _rounds.SMOKE}


def made(way: Subject, *arguments: str) -> Any:
    """Calls a function of a module in a separate process. Skips peers that do not load."""
    module, function = way
    try:
        return getattr(importlib.import_module(module), function)(*arguments)
    except (ImportError, OSError, RuntimeError) as error:
        if module in OF_OURS:
            raise
        print(f"  {module}.{function} is left out: {error}", flush=True)
        return {}


# ---- the pictures


def grey_levels(way: Subject, folder: str) -> Any:
    """The difference between a decoder's pictures and the reference, in a separate process."""
    names = _images_files.paths(folder, _rounds.shorter(50, 4))
    if not (isinstance(made(way, names[0]), np.ndarray)):
        return {}
    decode = partial(made, way)
    halved = way[1].endswith("halved")
    reference = _images_files.reference_halved if halved else _images_files.reference

    def distances() -> list[float]:
        pairs = [(reference(path).astype(np.int16), decode(path)) for path in names]
        return [float(np.abs(expected - found).mean()) for expected, found in pairs]

    return distances


def decoders(folder: str, verdicts: _verdicts.Verdicts) -> None:
    """Whether all pipelines read the same pictures."""
    print("Mean distance of decoded pictures from Pillow's, in grey levels, over pictures")
    makers = {name: partial(grey_levels, way, folder) for name, way in chosen(DECODERS).items()}
    with _processes.running(makers) as found:
        for name, distances in found.items():
            verdicts.at_most(name, distances(), MOST_GREY_LEVELS)


# ---- pipelines


def measured(subjects: dict[str, Subject], folder: str) -> _rounds.Figures:
    """Images a second of each subject; prints them, and the processors' time."""
    times: _rounds.Figures = {}
    makers = {name: partial(made, way, folder) for name, way in chosen(subjects).items()}
    with _processes.running(makers) as functions:
        runs = {name: partial(rate, times, name, run) for name, run in functions.items()}
        _rounds.warm_up(runs)
        times.clear()
        rates = _rounds.measure(runs, ROUNDS)
    show(rates, times)
    return rates


def rate(times: _rounds.Figures, name: str, run: Callable[[], tuple[float, float]]) -> float:
    """Measures the images a second; notes the processors' milliseconds of an image."""
    per_second, milliseconds = run()
    times.setdefault(name, []).append(milliseconds)
    return per_second


def show(rates: _rounds.Figures, times: _rounds.Figures) -> None:
    """Prints both figures of all subjects."""
    for name, values in rates.items():
        per_image = _rounds.summary(times[name], ".2f")
        print(f"  {name:<44} {_rounds.summary(values, '6.0f')} images/s; CPU-ms per image {per_image}")


def core(folder: str, verdicts: _verdicts.Verdicts) -> None:
    """Our pipeline compared with the bare loop."""
    print("One core, one process")
    rates = measured(CORE, folder)
    for size in ("", ", half the size"):
        ratios = _rounds.ratios(rates[f"ours, one core{size}"], rates[f"bare loop, one core{size}"])
        what = f"ours / bare loop, one core{size}"
        verdicts.untargeted(what, ratios) if size else verdicts.at_least(what, ratios, 0.95)


def cores(folder: str, verdicts: _verdicts.Verdicts) -> None:
    """Our pipeline compared with the peers."""
    print("Two cores")
    rates = measured(CORES, folder)
    for name in list(rates):
        if name.startswith("ours"):
            continue
        ours = OURS_HALVED if name.endswith("half the size") else OURS
        ratios = _rounds.ratios(rates[ours], rates[name])
        if name in LIMITS:
            verdicts.at_least(f"{ours} / {name}", ratios, LIMITS[name])
        else:
            verdicts.untargeted(f"{ours} / {name}", ratios)


# ---- training


def training(folder: str, verdicts: _verdicts.Verdicts) -> None:
    """A network on augmented pictures."""
    print("ResNet-20 on augmented pictures of 32 x 32, batches of 128, two cores")
    makers, times = _images_resnet.subjects(folder), {}

    @contextlib.contextmanager
    def subjects() -> Iterator[dict[str, Callable[[], float]]]:
        with _processes.running(makers) as functions:
            yield {name: partial(rate, times, name, run) for name, run in functions.items()}

    rates = _rounds.measure_afresh(subjects, _rounds.shorter(3))
    show(rates, times)
    keras = {name: median(values) for name, values in rates.items() if name.startswith("Keras")}
    best = max(keras, key=keras.__getitem__)
    from_flow = [name for name in rates if name.startswith(_images_resnet.FROM_FLOW)]
    ours = max(from_flow, key=lambda name: median(rates[name]))
    verdicts.at_least(f"{ours} / {best}", _rounds.ratios(rates[ours], rates[best]), 1.1)
    for name in from_flow:
        other = name.replace(_images_resnet.FROM_FLOW, _images_resnet.RESIDENT)
        verdicts.at_least(f"{name} / {other}", _rounds.ratios(rates[name], rates[other]), 0.95)


PARTS = {"decoders": decoders, "core": core, "cores": cores, "training": training}


def main() -> None:
    """Measures the parts that the command line names, or all."""
    names = sys.argv[1:] or [*PARTS]
    print(_rounds.heading(*PACKAGES))
    verdicts = _verdicts.Verdicts()
    with tempfile.TemporaryDirectory() as folder:
        _images_files.write_files(Path(folder))
        for name in names:
            PARTS[name](folder, verdicts)
    verdicts.leave()


if __name__ == "__main__":
    main()
