"""Makes the weights that a program loads: builds its model, and saves the initial values of its variables.

    python made_weights.py vgg16.npz caffe /path/to/load-vgg16.py --load vgg16.npz --input photograph.jpg

The second argument says how the file names variables: as the `graph` does, as `caffe` does (W and b), or as
Caffe's ResNet (`resnet`). A file that does not end in `.npz` is a checkpoint of TensorFlow.
"""

from __future__ import annotations

import importlib
import os
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

    with tf.Session() as sess:
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


if __name__ == "__main__":
    main()
