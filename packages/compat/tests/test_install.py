"""`install` changes the process that asks for it, and the processes that this one starts; no other."""

from __future__ import annotations

from pathlib import Path

import pytest

INSTALLED = "import towerpack_compat; towerpack_compat.install(report=False)\n"


def test_importing_the_package_changes_nothing(python) -> None:
    code = """
import builtins, sys, numpy
before = builtins.__import__, list(sys.meta_path), dir(numpy)
import towerpack_compat
assert before == (builtins.__import__, list(sys.meta_path), dir(numpy))
assert "tensorflow" not in sys.modules
try:
    import tensorpack
except ModuleNotFoundError:
    print("not there")
"""
    assert "not there" in python(code=code)


def test_it_prints_a_line_for_each_stand_in_once(python) -> None:
    printed = python(code="import towerpack_compat; towerpack_compat.install(); towerpack_compat.install()")
    lines = printed.strip().splitlines()
    assert len(lines) == 3
    assert all(line.startswith("towerpack-compat: ") for line in lines)


def test_it_says_that_an_installed_horovod_is_not_used(python, tmp_path: Path) -> None:
    (tmp_path / "horovod").mkdir()
    (tmp_path / "horovod" / "__init__.py").write_text("")
    code = "import sys; sys.path.insert(0, '.'); import towerpack_compat; towerpack_compat.install()"
    place = tmp_path / "horovod" / "__init__.py"
    assert f"towerpack-compat: `horovod` exchanges over MPI, and {place} is not used" in python(code=code)


@pytest.mark.slow
def test_tensorflow_is_its_first_version_in_files_of_users_alone(python, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("import tensorflow as tf\nfrom tensorflow import placeholder\n")
    code = INSTALLED + (
        "import sys; sys.path.insert(0, '.')\n"
        "import model\n"
        "import towerpack_layers\n"
        "assert not model.tf.executing_eagerly()\n"
        "names = sys.modules['tensorflow'].__name__, model.tf.get_variable('a', [2]).name\n"
        "from tensorflow.python.ops import gen_nn_ops\n"
        "import tensorflow.python.framework.test_util as test_util\n"
        "assert callable(gen_nn_ops.relu_grad) and callable(test_util.IsMklEnabled)\n"
        "from tensorflow.contrib.slim.nets import resnet_v1\n"
        "model.tf.contrib.slim.batch_norm(model.tf.zeros([4, 3]))\n"
        "assert model.tf.get_collection(model.tf.GraphKeys.UPDATE_OPS)  # it trains unless told not to\n"
        "print(model.tf.layers.dense, *names)\n"
    )
    printed = python(code=code)
    assert "dense" in printed
    assert printed.rstrip().endswith("tensorflow a:0")


@pytest.mark.long
@pytest.mark.slow
def test_parts_of_contrib_and_whole_floats_as_dimensions(python) -> None:
    code = INSTALLED + (
        "import tensorflow as tf\n"
        "from tensorflow.contrib.compiler import xla\n"
        "from tensorflow.contrib.framework import add_model_variable, arg_scope, list_variables, nest\n"
        "from tensorflow.contrib.slim.nets import resnet_utils\n"
        "weights = tf.get_variable('w', [6 / 2, 4])\n"
        "add_model_variable(weights)\n"
        "x = tf.placeholder(tf.float32, [None, 3, 4])\n"
        "assert x.shape[1].value == 3 and [size.value for size in x.shape[1:]] == [3, 4]\n"
        "assert x.shape[0] is None and tf.reshape(x, [-1, x.shape[1] * x.shape[2]]).shape[1] == 12\n"
        "assert tf.layers.dense(x, x.shape[2]).shape.as_list() == [None, 3, 4]\n"
        "assert tf.contrib.signal.stft is tf.signal.stft\n"
        "print(weights.shape, [v.name for v in tf.model_variables()], callable(xla.compile))\n"
        "try: tf.TensorShape([2.5])\n"
        "except TypeError: print('refused')\n"
    )
    assert python(code=code).split("\n")[-3:-1] == ["(3, 4) ['w:0'] True", "refused"]


def test_names_that_numpy_has_removed_are_back(python) -> None:
    code = INSTALLED + "import numpy as np; print(np.zeros(2, np.float).dtype, np.int(3), np.bool(1))"
    code += "; print(np.dtype(np.sctypes['uint'][1]))"
    code += "; print(np.float_ is np.float64, np.Inf, np.long(2), np.in1d([1, 2], [2]))"
    code += "; print(np.asscalar(np.ones(1)), np.asfarray([1]).dtype, np.asfarray([1], 'f4').dtype)"
    code += "; print(np.trapz([1, 3]), np.mat([[1]]).shape == (1, 1), np.PINF == np.infty)"
    printed = python(code=code).split()
    assert printed[:9] == ["float64", "3", "True", "uint16", "True", "inf", "2", "[False", "True]"]
    assert printed[9:] == ["1.0", "float64", "float32", "2.0", "True", "True"]


def test_methods_that_arrays_have_lost_are_back(python) -> None:
    code = INSTALLED + "import numpy as np\narray = np.array([[1, 5], [7, 2]], '>i2')\n"
    code += "print(array.tostring() == array.tobytes(), array.ptp(), array.ptp(axis=0))\n"
    code += "print(array.newbyteorder()[0, 0])"
    assert python(code=code).split() == ["True", "6", "[6", "3]", "256"]


def test_a_dry_run_opens_no_windows_in_a_migrated_script(python, monkeypatch) -> None:
    monkeypatch.setenv("TOWERPACK_COMPAT_DRY_RUN", "3")
    pytest.importorskip("cv2")
    code = INSTALLED + "import cv2, numpy; cv2.imshow('a', numpy.zeros((4, 4, 3))); print(cv2.waitKey(0))"
    assert python(code=code).split() == ["-1"]


def test_the_real_tensorpack_is_refused_by_name(python, tmp_path: Path) -> None:
    (tmp_path / "tensorpack").mkdir()
    (tmp_path / "tensorpack" / "__init__.py").write_text("")
    code = "import sys; sys.path.insert(0, '.')\n" + INSTALLED
    assert ", and towerpack-compat replaces it. Uninstall it" in python(code=code, status=1)


@pytest.mark.slow
def test_workers_of_flows_have_it_too(python, tmp_path: Path) -> None:
    (tmp_path / "my_flow.py").write_text(
        "import numpy as np\n"
        "from tensorpack.dataflow import DataFlow\n"
        "first = 0\n"
        "class Old(DataFlow):\n"
        "    def get_data(self):\n"
        "        for k in range(6):\n"
        "            yield [np.int(k) + first]\n"
        "    def size(self):\n"
        "        return 6\n"
    )
    (tmp_path / "program.py").write_text(
        "from tensorpack.dataflow import *\n"
        "import my_flow\n"
        "my_flow.first = 10\n"
        "old = my_flow.Old()\n"
        "old.opened = open('program.py')  # which no pickle holds\n"
        "flow = MultiProcessRunnerZMQ(MapData(old, lambda dp: [dp[0] + 1]), 2)\n"
        "flow.reset_state()\n"
        "print(flow.size(), [dp[0] for dp in flow.get_data()])\n"
    )
    printed = python("-m", "towerpack_compat", "run", "program.py")
    assert "6 [11, 12, 13, 14, 15, 16]" in printed


def test_label_maps_of_integers_move_with_their_image(python) -> None:
    code = INSTALLED + (
        "import numpy as np\n"
        "from tensorpack.dataflow import *\n"
        "rows = np.arange(60 * 60, dtype=np.float32).reshape(60, 60)\n"
        # OpenCV rounds the nearest pixel otherwise for one, three and four channels of float32.
        "image = np.stack([rows, rows + 7], axis=2)\n"
        "labels = image.astype(np.int32)\n"
        "turn = imgaug.Affine(rotate_max_deg=90, interp=0, border=0)\n"
        "augmentors = [turn, imgaug.Flip(horiz=True), imgaug.CenterCrop(20)]\n"
        "flow = AugmentImageComponents(DataFromList([[image, labels]] * 50), augmentors, index=(0, 1))\n"
        "flow.reset_state()\n"
        "for moved, both in flow:\n"
        "    assert both.dtype == np.int32 and both.shape == (20, 20, 2)\n"
        "    assert (both == moved).all() and (both[..., 1] == both[..., 0] + 7).all()\n"
        "flipped = imgaug.AugmentorList([imgaug.Flip(horiz=True, prob=1)]).augment(labels)\n"
        "assert (flipped == labels[:, ::-1]).all()\n"
        "import towerpack_dataflow.augment\n"
        "alone = towerpack_dataflow.augment.AugmentorList([imgaug.Flip(horiz=True)])\n"
        "try: alone.augment(labels)\n"
        "except ValueError as error: print(error)\n"
    )
    assert "an image is uint8, float32 or float64; received int32" in python(code=code)


@pytest.mark.slow
def test_horovod_is_over_mpi_and_names_what_it_needs(python) -> None:
    code = INSTALLED + (
        "import os, sys; sys.modules['mpi4py'] = None; os.environ['PMI_RANK'] = '1'\n"
        "import horovod.tensorflow as hvd\n"
        "for use in (hvd.init, lambda: hvd.DistributedOptimizer(None)):\n"
        "    try: use()\n"
        "    except Exception as error: print(type(error).__name__, error)\n"
    )
    of_mpi, of_name = python(code=code).splitlines()[-2:]
    assert of_mpi.startswith("MissingExtraError") and '"towerpack-trainers[mpi]"' in of_mpi
    assert of_name.startswith(
        "NoCounterpartError horovod.tensorflow.DistributedOptimizer has no counterpart."
    )
    assert "docs/migrating-from-tensorpack.md#training-over-processes" in of_name


@pytest.mark.long
@pytest.mark.slow
def test_horovod_trains_one_process_without_mpi(python) -> None:
    code = INSTALLED + (
        "import sys; sys.modules['mpi4py'] = None\n"
        "import numpy as np\n"
        "import tensorflow as tf\n"
        "from tensorpack import *\n"
        "import horovod.tensorflow as hvd\n"
        "hvd.init()\n"
        "def cost(x):\n"
        "    w = tf.get_variable('w', initializer=1.)\n"
        "    return tf.reduce_mean(hvd.allgather(hvd.allreduce(hvd.broadcast(w * x, 0))), name='cost')\n"
        "trainer = HorovodTrainer(average=False)\n"
        "source = QueueInput(RepeatedData(DataFromList([[np.float32([2])]]), -1))\n"
        "signature = [tf.TensorSpec([None], tf.float32, 'x')]\n"
        "trainer.setup_graph(signature, source, cost, lambda: tf.train.GradientDescentOptimizer(.25))\n"
        "class Tell(Callback):\n"
        "    def _trigger(self): print('w is', self.trainer.sess.run('w:0'))\n"
        "trainer.train_with_defaults(callbacks=[Tell()], monitors=[], steps_per_epoch=1, max_epoch=1)\n"
        "print('of', hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size())\n"
    )
    printed = python(code=code)
    assert "this process trains alone" in printed
    assert "w is 0.5" in printed and "of 0 1 0 1" in printed
