"""Makes the weights that a program loads: builds its model, and saves the initial values of its variables.

    python made_weights.py vgg16.npz caffe /path/to/load-vgg16.py --load vgg16.npz --input photograph.jpg

The second argument says how the file names variables: as the `graph` does, as `caffe` does (W and b), or as
Caffe's ResNet (`resnet`). A file that does not end in `.npz` is a checkpoint of TensorFlow. With `detectron2`
the program is not run: the file is that of a Mask R-CNN, and its configuration is written beside it.
"""

from __future__ import annotations

import importlib
import json
import os
import pickle
import re
import runpy
import sys
from typing import Any, NoReturn

import numpy as np

import towerpack_compat

__all__: list[str] = []


def main() -> None:
    """Runs the program until it asks for a session."""
    path, names, script, *arguments = sys.argv[1:]
    if names == "detectron2":
        _detectron2(path)
        return
    if path.endswith(".npz"):
        np.savez(path)
    else:
        open(path, "w").close()  # the program looks whether it is there
    towerpack_compat.install(report=False)
    PredictConfig: Any = importlib.import_module("tensorpack.predict").PredictConfig

    def save(_config: Any, devices: Any = ()) -> NoReturn:
        _save(path, names)
        sys.exit()

    PredictConfig.open_session = save
    sys.argv = [script, *arguments]
    sys.path[0] = os.path.dirname(os.path.realpath(script))
    runpy.run_path(script, run_name="__main__")


def _save(path: str, names: str) -> None:
    import tensorflow.compat.v1 as tf

    # A program may name a GPU, and the session of its predictor may place the op elsewhere.
    with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as sess:
        sess.run(tf.global_variables_initializer())
        if not path.endswith(".npz"):
            tf.train.Saver().save(sess, os.path.abspath(path), write_meta_graph=False)
            return
        values = sess.run({variable.op.name: variable for variable in tf.global_variables()})
    rename = {"graph": str, "caffe": _as_caffe, "resnet": _as_resnet}[names]
    np.savez(path, **{rename(name): value for name, value in values.items()})


def _as_caffe(name: str) -> str:
    return name.replace("/kernel", "/W").replace("/bias", "/b")


def _as_resnet(name: str) -> str:
    """Returns Caffe's name: group1/block2/conv3/bn/beta is bn3c_branch2c/beta."""
    begin = {"conv0/bn": "bn_conv1", "conv0": "conv1", "linear": "fc1000"}
    for old, new in begin.items():
        if name.startswith(f"{old}/"):
            return new + name.removeprefix(old)
    found = re.fullmatch(r"group(\d)/block(\d+)/conv(\d|shortcut)(/bn)?/(.*)", name)
    assert found is not None, name
    group, block, conv, bn, rest = found.groups()
    branch = "1" if conv == "shortcut" else f"2{'abc'[int(conv) - 1]}"
    letter = "abcdefgh"[int(block)]
    return f"{'bn' if bn else 'res'}{int(group) + 2}{letter}_branch{branch}/{rest}"


def _detectron2(path: str) -> None:
    """Writes a ResNet-50 with FPN of 32 channels, and heads of 32 channels."""
    shapes: dict[str, tuple[int, ...]] = {}

    def conv(name: str, size: int, before: int, after: int, norm: bool = False, stem: str = "") -> None:
        shapes[f"{stem}{name}.weight"] = (after, before, size, size)
        ends = ("weight", "bias", "running_mean", "running_var") if norm else ("bias",)
        shapes.update({f"{stem}{name}.{'norm.' * norm}{end}": (after,) for end in ends})

    conv("stem.conv1", 7, 3, 64, True, "backbone.bottom_up.")
    before = 64
    for group, blocks in enumerate((3, 4, 6, 3)):
        width = 64 * 2**group
        for block in range(blocks):
            stem = f"backbone.bottom_up.res{group + 2}.{block}."
            conv("conv1", 1, before, width, True, stem)
            conv("conv2", 3, width, width, True, stem)
            conv("conv3", 1, width, 4 * width, True, stem)
            if block == 0:
                conv("shortcut", 1, before, 4 * width, True, stem)
            before = 4 * width
        conv(f"backbone.fpn_lateral{group + 2}", 1, before, 32)
        conv(f"backbone.fpn_output{group + 2}", 3, 32, 32)
    for name, size, after in (("conv", 3, 32), ("objectness_logits", 1, 3), ("anchor_deltas", 1, 12)):
        conv(name, size, 32, after, stem="proposal_generator.rpn_head.")
    layers = {"box_head.fc1": (32, 32 * 49), "box_head.fc2": (32, 32)}
    layers |= {"box_predictor.bbox_pred": (320, 32), "box_predictor.cls_score": (81, 32)}
    for name, shape in layers.items():
        shapes |= {f"roi_heads.{name}.weight": shape, f"roi_heads.{name}.bias": shape[:1]}
    for k in range(4):
        conv(f"mask_fcn{k + 1}", 3, 32, 32, stem="roi_heads.mask_head.")
    conv("deconv", 2, 32, 32, stem="roi_heads.mask_head.")
    conv("predictor", 1, 32, 80, stem="roi_heads.mask_head.")
    rng = np.random.default_rng(0)
    values = {name: 0.01 * rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    values |= {name: np.ones_like(value) for name, value in values.items() if name.endswith("running_var")}
    with open(path, "wb") as file:
        pickle.dump({"model": values}, file)
    with open(f"{path}.json", "w") as file:
        json.dump(_CONFIGURATION, file)


_CONFIGURATION = {
    "MASK_ON": True,
    "BACKBONE": {"NAME": "build_resnet_fpn_backbone"},
    "RESNETS": {"DEPTH": 50, "STRIDE_IN_1X1": True},
    "PIXEL_MEAN": [103.53, 116.28, 123.675],
    "PIXEL_STD": [1.0, 1.0, 1.0],
    "ROI_HEADS": {"NAME": "StandardROIHeads"},
    "ROI_BOX_CASCADE_HEAD": {"IOUS": [0.5, 0.6, 0.7]},
    "ROI_BOX_HEAD": {"POOLER_TYPE": "ROIAlignV2", "CLS_AGNOSTIC_BBOX_REG": False, "NUM_FC": 2},
    "ROI_MASK_HEAD": {"POOLER_TYPE": "ROIAlignV2", "NUM_CONV": 4},
}


if __name__ == "__main__":
    main()
