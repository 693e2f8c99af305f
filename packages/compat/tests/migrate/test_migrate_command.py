"""`python -m towerpack_compat migrate`: what is rewritten, what stays, what is marked, what is left alone."""

import builtins
import inspect
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from towerpack_compat import MigrationError
from towerpack_compat.__main__ import main

pytest.importorskip("libcst")  # comes with the extra [migrate]
from towerpack_compat.migrate import migrate_files, migrate_source, read_calls, read_names
from towerpack_compat.names import own_names

MARK = "# TODO(towerpack): "
INSTALL = "import towerpack_compat\n\ntowerpack_compat.install()\n"


def rewritten(script):
    """The rewritten form, which a second run leaves as it is."""
    after = migrate_source(script.encode()).after
    assert migrate_source(after).after == after
    compile(after, "script.py", "exec")
    return after.decode()


def program(**scripts):
    """The rewritten forms of the files of one program."""
    found = migrate_files({Path(f"{name}.py"): text.encode() for name, text in scripts.items()})
    return {path.stem: each.after.decode() for path, each in found.items()}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "from tensorpack import *\nBatchData(f, 2)\n",
            "from towerpack_dataflow import BatchData\nBatchData(f, 2)\n",
        ),
        ("import tensorpack as tp\ntp.BatchData\n", "from towerpack_dataflow import BatchData\nBatchData\n"),
        (
            "import tensorpack\nx = tensorpack.models.Conv2D\n",
            "from towerpack_layers import Conv2D\nx = Conv2D\n",
        ),
        (
            "from tensorpack.dataflow import BatchData as B\nB(f, 2)\n",
            "from towerpack_dataflow import BatchData as B\nB(f, 2)\n",
        ),
        (
            "from tensorpack import PrefetchDataZMQ as P\nP(f, 2)\n",
            'from towerpack_dataflow import MultiProcessRunner as P\nP(f, 2, start_method="fork")\n',
        ),
        (
            "from tensorpack import imgaug\nimgaug.Flip(horiz=True)\n",
            "from towerpack_dataflow import augment as imgaug\nimgaug.Flip(horiz=True)\n",
        ),
        (
            "from tensorpack.tfutils import optimizer as o\no.AccumGradOptimizer(a, 4)\n",
            'from towerpack_trainers import AccumGradOptimizer\nAccumGradOptimizer(a, 4, reduction="sum")\n',
        ),
        (
            "import os, tensorpack as tp\ntp.Conv2D\n",
            "import os\nfrom towerpack_layers import Conv2D\nConv2D\n",
        ),
        (
            "def f():\n    from tensorpack import BatchData\n    return BatchData\n",
            "def f():\n    from towerpack_dataflow import BatchData\n    return BatchData\n",
        ),
        ("def f():\n    import tensorpack as tp  # why\n", "def f():\n    # why\n    pass\n"),
        (
            "from tensorpack import (\n    # of data\n    BatchData,  # why\n)\nBatchData(f, 2)\n",
            "# of data\n# why\nfrom towerpack_dataflow import BatchData\nBatchData(f, 2)\n",
        ),
        (
            "if x: from tensorpack import (BatchData, # why\n  MapData)\nBatchData(f, 2)\n",
            "if x:\n    # why\n    from towerpack_dataflow import BatchData, MapData\nBatchData(f, 2)\n",
        ),
    ],
)
def test_what_has_an_equal_name_is_imported_from_towerpack(before, after):
    assert rewritten(before) == after


def test_another_star_may_replace_names_whose_calls_change():
    script = "from tensorpack import *\nfrom mine import *\nPrefetchData(BatchData(f, 2), 10, 4)\n"
    after = rewritten(script)
    assert (
        "from tensorpack import PrefetchData\n" in after and "PrefetchData(BatchData(f, 2), 10, 4)" in after
    )
    assert after.index("import BatchData") < after.index("from mine import *")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("PrefetchData(df, 10, 4)", 'MultiProcessRunner(df, 4, start_method="fork")'),
        (
            "PrefetchData(df, nr_proc=4, nr_prefetch=10)",
            'MultiProcessRunner(df, num_workers=4, start_method="fork")',
        ),
        ("ThreadedMapData(df, 4, map_func=f, buffer_size=9)", "MultiThreadMapData(df, 4, func=f)"),
        ("TensorPrinter(['a'])", "ProcessTensors(['a'], function=print)"),
        ("PeriodicTrigger(triggerable=c, every_k_steps=2)", "PeriodicTrigger(callback=c, every_k_steps=2)"),
        ("GaussianBlur(size_range=(0, 3), max_size=3)", "GaussianBlur(size_range=(0, 3))"),
        ("BatchNorm('bn', x, sync_statistics=None)", "BatchNorm('bn', x, sync_statistics=None)"),
    ],
)
def test_calls_are_written_as_ours(before, after):
    stars = "from tensorpack import *\nfrom tensorpack.dataflow.imgaug import *\n"
    assert rewritten(f"{stars}\n{before}\n").endswith(f"\n\n{after}\n")


STAYS = [
    "launch_train_with_config(config, SyncMultiGPUTrainerReplicated(2, average=False))",
    "config.session_init = get_model_loader(x)",
    "x = get_global_step_var()",
    "ds = dataset.ILSVRC12('train', d)",
    "logger.set_logger_dir('x')",
    "class A(Inferencer): pass",
    "QueueInput(ds, queue)",
    "PrefetchDataZMQ(*options)",
    "runner = PrefetchDataZMQ",
    "class A(PrefetchDataZMQ): pass",
]


@pytest.mark.parametrize("line", STAYS)
def test_what_differs_stays_on_tensorpacks_meaning(line):
    after = rewritten(f"from tensorpack import *\n\n{line}\n")
    assert after.startswith(f"{INSTALL}\nfrom tensorpack import ")
    assert after.endswith(f"\n\n{line}\n") and MARK not in after


def test_a_call_with_an_argument_of_tensorpack_alone_stays():
    script = "from tensorpack.tfutils.summary import add_moving_summary\n\nadd_moving_summary(cost{})\n"
    assert rewritten(script.format(", decay=0.5")) == f"{INSTALL}\n{script.format(', decay=0.5')}"
    assert "from towerpack_callbacks import add_moving_summary\n" in rewritten(script.format(""))


def test_each_name_with_a_meaning_of_its_own_stays():
    names = [
        name
        for name in own_names()
        # The random numbers of RNGDataFlow are rewritten; BatchData rejects mixed types, and augmentors
        # other integers than uint8.
        if name not in {"AugmentorList", "BatchData", "RNGDataFlow"}
        and not name.startswith("AugmentImage")
        and (read_calls().get(name, "") == "" or not read_calls()[name].changed)
    ]
    script = "".join(f"from tensorpack import {name}\n{name}\n" for name in names)
    assert rewritten(script) == f"{INSTALL}\n{script}"


def test_one_use_without_an_equal_keeps_all_uses_of_the_name():
    after = rewritten(
        "from tensorpack import *\nBatchData(PrefetchData(df, 2, 3), 4)\nclass Mine(PrefetchData): pass\n"
    )
    assert "from tensorpack import PrefetchData\n" in after and "PrefetchData(df, 2, 3)" in after
    assert "from towerpack_dataflow import BatchData\n" in after


def test_models_of_older_releases_and_trainers_of_horovod_stay_as_they_are():
    script = "from tensorpack import HorovodTrainer, ModelDesc\n"
    script += "class A(ModelDesc):\n    def _build_graph(self, x): pass\n"
    script += "trainer = HorovodTrainer(average=False)\n"
    assert rewritten(script) == f"{INSTALL}\n{script}"


def test_a_prefix_stays_whole():
    script = "from tensorpack import imgaug\nimgaug.Flip()\nblur = imgaug.GaussianBlur\n"
    assert rewritten(script) == f"{INSTALL}\n{script}"


def test_install_stands_behind_docstring_and_future_and_once():
    head = '#!/usr/bin/env python\n"""What."""\nfrom __future__ import division\n'
    rest = "from tensorpack import logger\n"
    assert rewritten(head + rest) == f"{head}\n{INSTALL}\n{rest}"
    other = "import towerpack_compat\ntowerpack_compat.install(report=False)\n"
    assert rewritten(other + rest) == other + rest


def test_an_import_of_which_all_stays_keeps_its_form():
    script = "from tensorpack import (  # why\n    logger,\n\n    TrainConfig)\n"
    assert rewritten(script) == f"{INSTALL}\n{script}"


@pytest.mark.parametrize(
    ("line", "section"),
    [
        ("CometMLMonitor(experiment)", "#names"),
        ("InjectShell()", "#names"),
        ("if BytePSTrainer(): pass", "#training-over-processes"),
        ("from tensorpack import nothing", "#names"),
        ("from tensorpack.nothing import x", "#names"),
    ],
)
def test_what_will_not_work_is_marked_above_its_statement(line, section):
    script = f"from tensorpack import *\n\n{line}\n"
    lines = rewritten(script).splitlines()
    [mark] = [number for number, text in enumerate(lines) if text.startswith(MARK)]
    assert lines[mark].endswith(f"docs/migrating-from-tensorpack.md{section}") and lines[mark + 1] == line
    assert migrate_source(script.encode()).by_hand


@pytest.mark.parametrize("use", ["tf.contrib.slim", "tf.layers.conv2d(x, 3, 3)", "tf.keras.Model"])
def test_a_module_with_what_tensorflow_has_lost_is_given_tensorflow_1(use):
    model = f"import tensorflow as tf\nfrom tensorpack import Conv2D\n{use}\nConv2D\n"
    after = program(train="import model\nfrom tensorpack import BatchData\n", model=model)["model"]
    assert after.startswith(f"{INSTALL}\nimport tensorflow as tf\n")


def test_modules_of_a_program_are_given_tensorflow_1_by_their_imports():
    scripts = {
        "train": "import tensorflow as tf\nfrom model import f\nfrom tensorpack import BatchData\n",
        "model": "import tensorflow as tf\nimport numpy as np\ndef f(): return tf.zeros([], np.float)\n",
        "apart": "import tensorflow as tf\nimport numpy as np\nnp.float\n",
    }
    after = program(**scripts)
    assert after["train"].startswith(f"{INSTALL}\nimport tensorflow as tf\n")
    assert after["model"] == (
        "import tensorflow.compat.v1 as tf\nimport numpy as np\ndef f(): return tf.zeros([], float)\n"
    )
    assert after["apart"] == scripts["apart"]
    assert program(**after) == after


def test_names_that_numpy_has_removed_become_those_of_python():
    script = (
        "import numpy as np\nfrom tensorpack import BatchData\nnp.zeros(3, np.bool), np.int(2), np.int32\n"
    )
    assert rewritten(script).endswith("np.zeros(3, bool), int(2), np.int32\n")
    assert rewritten(f"{script}bool = 1\n").startswith(INSTALL)
    assert rewritten(f"{script}np.in1d\n").startswith(INSTALL)


def test_the_bytes_of_an_array_have_numpys_new_name():
    script = (
        "from tensorpack import BatchData\ncv2.imencode('.jpg', img)[1].tostring()\netree.tostring(root)\n"
    )
    after = rewritten(script)
    assert after.endswith("cv2.imencode('.jpg', img)[1].tobytes()\netree.tostring(root)\n")


def test_a_module_keeps_what_other_files_take_from_it():
    scripts = {
        "common": "from tensorpack import *\n",
        "train": "from common import *\nPrefetchDataZMQ(BatchData(df, 3), 2)\n",
        "more": "from common import MapData\nimport common\ncommon.Conv2D\n",
    }
    after = program(**scripts)
    assert after["train"] == scripts["train"] and after["more"] == scripts["more"]
    for line in (
        "from tensorpack import PrefetchDataZMQ",
        "from towerpack_dataflow import BatchData, MapData",
        "from towerpack_layers import Conv2D",
    ):
        assert f"{line}\n" in after["common"]
    assert program(**after) == after


def test_names_of_ones_own_are_left_alone():
    own = "def Conv2D(x):\n    return BatchData\n\nConv2D(1)\nf(Conv2D=x.BatchData)\n"
    script = f"from tensorpack import *\n\n{own}"
    after = rewritten(script)
    assert "towerpack_layers" not in after and "f(Conv2D=x.BatchData)" in after
    assert rewritten("from tensorpack import *\nfrom mine import BatchData\nBatchData\n") == (
        "from mine import BatchData\nBatchData\n"
    )


def test_a_new_name_does_not_hide_one_of_the_scripts():
    after = rewritten("from tensorpack import *\nMultiProcessRunner = 1\nPrefetchDataZMQ(df, 2)\n")
    assert after.startswith("from towerpack_dataflow import MultiProcessRunner as PrefetchDataZMQ\n")
    after = rewritten("import tensorpack as tp\nBatchData = tp.BatchData\n")
    assert after.splitlines()[1] == "BatchData = towerpack_BatchData"


def test_what_a_module_exports_keeps_its_name():
    after = rewritten("from tensorpack import *\n__all__ = ['PrefetchDataZMQ', 'Deconv2D', 'mine']\n")
    assert "from tensorpack import PrefetchDataZMQ\n" in after
    assert "from towerpack_layers import Deconv2D\n" in after


def test_both_branches_of_an_import_lead_to_the_wheel():
    first, second = "from tensorpack.dataflow import MapData", "from tensorpack import MapData"
    script = f"try:\n    {first}\nexcept ImportError:\n    {second}\n"
    after = rewritten(f"{script}MapData(f, g)\n")
    assert after.count("from towerpack_dataflow import MapData") == 2 and "tensorpack" not in after.replace(
        "towerpack", ""
    )


FLOW = """from tensorpack import *

class Mine(RNGDataFlow):
    def __init__(self, ds):
        self.ds = ds

    def size(self):
        return self.ds.size()

    def get_data(self):
        for x in self.ds.get_data():
            yield x + self.rng.rand(2, 3) + self.rng.randint(5)
"""


def test_flows_of_ones_own_are_written_as_ours():
    other = "class Other:\n    def size(self):\n        return self.rng.rand()\n"
    after = rewritten(f"{FLOW}\n{other}")
    assert INSTALL not in after and after.endswith(other)
    for text in ("__len__(self)", "len(self.ds)", "__iter__(self)", "in iter(self.ds)", "rng.random((2, 3))"):
        assert text in after


@pytest.mark.parametrize(
    "use", ["flow.size()", "next(x.get_data())", "class B(Mine):\n    def size(self): return super().size()"]
)
def test_methods_keep_their_names_where_a_use_is_not_known(use):
    after = rewritten(f"{FLOW}\n{use}\n")
    assert after.startswith(INSTALL) and "def size(self)" in after and "self.ds.get_data()" in after
    both = program(flows=FLOW, train=f"from flows import Mine\nfrom tensorpack import BatchData\n{use}\n")
    assert both["flows"].startswith(INSTALL) and "def get_data(self)" in both["flows"]


TEXTS = [
    "def f(x):\n\tif x:\n\t\treturn 1  # tabs\n\treturn  (2)\n",
    "x = 1 ;  y = 2\r\nz = [ 1,\r\n  2 ]\r\n",
    "# tensorpack\nname = 'tensorpack'\nfrom . import tensorpack\nfrom .tensorpack import BatchData\n",
    "import tensorflow as tf\nfrom tensorpack_other import *\ntf.contrib.x\nBatchData\n",
    "",
    "\n\n# only a comment",
    "\ufeffx = 1\n",
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_script_without_tensorpack_stays_as_it_is(text):
    migration = migrate_source(text.encode())
    assert migration.after == text.encode() and migration.diff("x") == "" and not migration.by_hand


NAMES = st.sampled_from(["x", "Conv2D", "logger", "BatchData", "tf", "tensorpack_x"])
LINES = st.one_of(
    st.builds("{} = {}".format, NAMES, NAMES),
    st.builds("import {} as {}".format, st.sampled_from(["os", "numpy", "tensorflow", "tensorpackx"]), NAMES),
    st.builds("{}.{}( {},{} = 1 )  # {}".format, NAMES, NAMES, NAMES, NAMES, NAMES),
    st.builds("class {}({}):\n  def size(self): return self.rng.rand()".format, NAMES, NAMES),
    st.sampled_from(
        ["from os import *", "", "# TODO", "if 1:\n\tpass", "'''tensorpack'''", "def f(): pass;"]
    ),
)
SCRIPTS = st.lists(LINES, max_size=6).map("\n".join)


@given(SCRIPTS)
@settings(max_examples=60, deadline=None)
def test_any_script_without_tensorpack_stays_as_it_is(script):
    assert migrate_source(script.encode()).after == script.encode()


@given(
    SCRIPTS,
    st.sampled_from(["from tensorpack import *", "import tensorpack as tp", "from tensorpack import tfv1"]),
)
@settings(max_examples=40, deadline=None)
def test_a_second_run_changes_nothing_and_comments_stay(script, statement):
    before = f"{statement}\n{script}\n"
    after = rewritten(before)
    comments = [line.partition("#")[2] for line in before.splitlines() if "#" in line]
    assert all(f"#{comment}" in after for comment in comments)


def test_encodings_stay():
    text = "# -*- coding: latin-1 -*-\nfrom tensorpack import *\nx = 'é'; BatchData\n"
    migration = migrate_source(text.encode("latin-1"))
    assert migration.after.decode("latin-1") == text.replace(
        "tensorpack import *", "towerpack_dataflow import BatchData"
    )
    assert "'é'" in migration.diff("x")


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (b"from tensorpack import *\nx = (\n", 2),
        (b"x = 1\nprint 'x'\n", 2),
        (b"def f():\n\tx\n        y\n", 3),
    ],
)
def test_what_does_not_parse_is_an_error_that_says_where(source, line):
    with pytest.raises(MigrationError, match=rf"^mine\.py:{line}:\d+: expected Python 3, received"):
        migrate_source(source, "mine.py")


@pytest.mark.parametrize("source", [b"# coding: nonsense\n", b"x = '\xff'\n"])
def test_an_encoding_that_is_not_that_of_the_text_is_an_error(source):
    with pytest.raises(MigrationError, match=r"^mine\.py:1:1: expected text in the encoding"):
        migrate_source(source, "mine.py")


def test_a_link_stays_a_link(tmp_path):
    file, link = tmp_path / "a.py", tmp_path / "b.py"
    file.write_text("from tensorpack import BatchData\n")
    file.chmod(0o755)
    link.symlink_to(file)
    assert main(["migrate", "--write", str(link)]) == 0
    assert link.is_symlink() and file.read_text() == "from towerpack_dataflow import BatchData\n"
    assert file.stat().st_mode & 0o777 == 0o755


def test_the_status_says_whether_all_runs(tmp_path, capsys):
    file = tmp_path / "a.py"
    file.write_text("from tensorpack import *\nInjectShell()\n")
    before = file.read_bytes()
    assert main(["migrate", str(file)]) == 3
    shown = capsys.readouterr()
    assert shown.out.startswith(f"--- {file}") and f"{file}:6: `InjectShell`" in shown.err
    assert file.read_bytes() == before
    assert main(["migrate", "--write", str(file)]) == main(["migrate", str(file)]) == 3
    assert main(["migrate", str(tmp_path / "nothing")]) == 1
    assert "nothing: expected an existing file or folder" in capsys.readouterr().err


def test_a_folder_is_a_program_and_what_is_no_python_3_is_skipped(tmp_path, capsys):
    files = {
        "a.py": "print 'two'\n",
        "below/b.py": "from tensorpack import BatchData\n",
        "below/.hidden/c.py": "from tensorpack import BatchData\n",
        "d.txt": "from tensorpack import BatchData\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert main(["migrate", "--write", str(tmp_path)]) == 3
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"skipped: {tmp_path / 'a.py'}:1:1: expected Python 3")
    changed = [name for name, text in files.items() if (tmp_path / name).read_text() != text]
    assert changed == ["below/b.py"]


def test_without_libcst_it_says_what_to_install(monkeypatch, capsys):
    real = builtins.__import__

    def without(name, globals=None, locals=None, fromlist=(), level=0):
        if name == "migrate" and level:
            raise ImportError("No module named 'libcst'", name="libcst")
        return real(name, globals, locals, fromlist, level)

    monkeypatch.setattr(builtins, "__import__", without)
    assert main(["migrate", os.devnull]) == 1
    assert 'pip install "towerpack-compat[migrate]"' in capsys.readouterr().err


@pytest.mark.parametrize(
    "code", ["(" * 3000 + ")" * 3000, "[" * 150 + "]" * 150, "a" + ".b" * 5000, "1" + "+1" * 20_000]
)
def test_what_is_nested_too_deeply_is_an_error(code):
    with pytest.raises(MigrationError, match=r"^mine\.py:\d+:\d+: expected .* nested"):
        migrate_source(f"from tensorpack import *\ny = {code}\n".encode(), "mine.py")


def test_each_changed_call_is_one_that_ours_takes():
    from importlib import import_module

    of_tensorflow = {"BasicLSTMCell", "GRUCell", "MultiRNNCell", "xavier_initializer", "InputDesc"}
    for name, change in read_calls().items():
        if name in of_tensorflow:
            continue
        counterpart = read_names().entries[name].counterpart
        assert counterpart is not None, name
        if not counterpart.module.startswith(("towerpack_dataflow.viz", "towerpack_dataflow.datasets")):
            takes = inspect.signature(getattr(import_module(counterpart.module), counterpart.name)).parameters
            order = [change.rename.get(old, old) for old in change.new]
            named = [
                change.rename.get(old, old) for old in change.old if old not in {*change.drop, *change.hand}
            ]
            if not any(each.kind is inspect.Parameter.VAR_KEYWORD for each in takes.values()):
                assert {*named, *change.add} <= set(takes), name
            if not counterpart.module.startswith("towerpack_layers"):
                assert list(takes)[: len(order)] == order, name


@pytest.mark.parametrize(
    ("body", "after"),
    [
        ("from tensorpack import *  # why", "if 1:  # why\n    from towerpack_dataflow import BatchData\n"),
        (
            "a = 1; from tensorpack import *",
            "if 1:\n    a = 1\n    from towerpack_dataflow import BatchData\n",
        ),
    ],
)
def test_an_import_on_the_line_of_its_header_is_rewritten(body, after):
    use = "d = BatchData(x, 4)\n" if "*" in body else ""
    assert migrate_source(f"if 1: {body}\n{use}".encode()).after.decode() == after + use


def test_random_numbers_that_a_flow_makes_itself_stay():
    code = (
        "from tensorpack import {0}\nfrom tensorpack.utils import get_rng\n"
        "class Own({0}):\n"
        "    def __init__(self):\n        self.rng = get_rng(self)\n"
        "    def __iter__(self):\n        yield [self.rng.randint(5)]\n"
    )
    assert "self.rng.randint(5)" in rewritten(code.format("DataFlow"))
    assert "self.rng.integers(5)" in rewritten(code.format("RNGDataFlow"))
