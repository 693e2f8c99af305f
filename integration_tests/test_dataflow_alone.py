"""Dataflow in an environment without TensorFlow: real digits come out in batches."""

import hashlib
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from towerpack_dataflow import AugmentImageComponent, BatchData, MapDataComponent
from towerpack_dataflow.augment import CenterCrop, Resize
from towerpack_dataflow.datasets import Digits
from towerpack_dataflow.testing import check_dataflow


def digits():
    flow = MapDataComponent(
        Digits("train"), lambda image, rng: image + rng.normal(0, 0.1, (8, 8)), 0, rng=True
    )
    return BatchData(flow, 32, remainder=True)


def test_there_is_no_tensorflow_here():
    assert importlib.util.find_spec("tensorflow") is None


def test_the_import_brings_in_nothing_heavy():
    code = "import sys, towerpack_dataflow; print(*sys.modules)"
    modules = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"zmq", "cloudpickle", "sklearn", "msgpack", "torch"} & set(modules)


def test_every_digit_comes_once_in_batches():
    flow = BatchData(Digits("train", shuffle=True), 32, remainder=True)
    batches = list(flow)
    assert [len(labels) for _, labels in batches[:-1]] == [32] * (len(batches) - 1)
    images = np.concatenate([images for images, _ in batches])
    in_order = np.concatenate(
        [images for images, _ in BatchData(Digits("train", shuffle=False), 32, remainder=True)]
    )
    assert len(images) == len(flow.ds)
    key = [tuple(image.ravel()) for image in images]
    assert sorted(key) == sorted(tuple(image.ravel()) for image in in_order)


RESUME = """
import hashlib, json, sys
sys.path.insert(0, sys.argv[1])
from test_dataflow_alone import digits
flow = digits()
flow.load_state_dict(json.loads(sys.argv[2]))
print(hashlib.sha256(b"".join(images.tobytes() for images, _ in flow)).hexdigest())
"""


def test_a_seeded_pass_is_repeated_and_resumed_in_another_process():
    flow = digits()
    flow.seed(7)
    iterator = iter(flow)
    for _ in range(10):
        next(iterator)
    state = json.dumps(flow.state_dict())
    rest = hashlib.sha256(b"".join(images.tobytes() for images, _ in iterator)).hexdigest()
    command = [sys.executable, "-c", RESUME, str(Path(__file__).parent), state]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == rest


def test_the_whole_pipeline_conforms():
    check_dataflow(digits())


@pytest.mark.skipif(importlib.util.find_spec("cv2") is not None, reason="OpenCV is installed")
def test_without_opencv_images_are_cropped_and_what_needs_it_names_the_extra():
    images = [[np.zeros((8, 8, 3), np.uint8)]]
    ((cropped,),) = AugmentImageComponent(images, CenterCrop(4))
    assert cropped.shape == (4, 4, 3)
    with pytest.raises(ImportError, match=r"needs the extra \[image\]: pip install"):
        list(AugmentImageComponent(images, Resize(4)))
