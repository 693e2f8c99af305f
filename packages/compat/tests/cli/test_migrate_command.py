"""`python -m towerpack_compat migrate`: what is rewritten, what is marked, what is left alone."""

import builtins
import inspect
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from towerpack_compat import MigrationError
from towerpack_compat.__main__ import main

pytest.importorskip("libcst")  # comes with the extra [migrate]
from towerpack_compat.cli.migrate import migrate_file, migrate_source, read_calls, read_names

MARK = "# TODO(towerpack): "


def rewritten(script):
    """The rewritten form, which a second run leaves as it is."""
    after = migrate_source(script.encode()).after
    assert migrate_source(after).after == after
    compile(after, "script.py", "exec")
    return after.decode()


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
            "from towerpack_dataflow import MultiProcessRunner as P\nP(f, 2)\n",
        ),
        (
            "from tensorpack import imgaug\nimgaug.Flip(horiz=True)\n",
            "from towerpack_dataflow import augment as imgaug\nimgaug.Flip(horiz=True)\n",
        ),
        (
            "from tensorpack.dataflow import dataset as d\nd.Mnist('train')\n",
            "from towerpack_dataflow import datasets as d\nd.Mnist('train')\n",
        ),
        (
            "from tensorpack.tfutils import optimizer as o\no.AccumGradOptimizer(a, 4)\n",
            'from towerpack_trainers import AccumGradOptimizer\nAccumGradOptimizer(a, 4, reduction="sum")\n',
        ),
        (
            "from tensorpack.compat import tfv1 as tf\ntf.reset_default_graph()\n",
            "import tensorflow.compat.v1 as tf\ntf.reset_default_graph()\n",
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
def test_imports_lead_to_the_five_wheels(before, after):
    assert rewritten(before) == after


def test_another_star_behind_one_of_tensorpack_is_marked():
    one, other = "from tensorpack import *\n", "from mine import *\n"
    after = rewritten(one + other + "BatchData(f, 2)\n")
    assert f"{MARK}this star may replace names of Tensorpack" in after
    assert after.index("import BatchData") < after.index(MARK) < after.index(other)
    assert after.count(MARK) == rewritten(f"{one}if x: {other}BatchData(f, 2)\n").count(MARK) == 1
    assert MARK not in rewritten(other + one + "BatchData(f, 2)\n")
    assert MARK not in rewritten("from tensorpack import BatchData\n" + other + "BatchData(f, 2)\n")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("PrefetchData(df, 10, 4)", "MultiProcessRunner(df, 4)"),
        ("PrefetchData(df, nr_proc=4, nr_prefetch=10)", "MultiProcessRunner(df, num_workers=4)"),
        ("ThreadedMapData(df, 4, map_func=f, buffer_size=9)", "MultiThreadMapData(df, 4, func=f)"),
        (
            "dataset.SVHNDigit('train', '/data', False)",
            "dataset.SVHNDigit('train', dir='/data', shuffle=False)",
        ),
        ("StagingInput(q, nr_stage=2)", "StagingInput(q, stages=2)"),
        ("ModelSaver(3, checkpoint_dir=d)", "ModelSaver(3, checkpoint_dir=d)"),
        ("TensorPrinter(['a'])", "ProcessTensors(['a'], function=print)"),
        ("PeriodicTrigger(triggerable=c, every_k_steps=2)", "PeriodicTrigger(callback=c, every_k_steps=2)"),
        ("InferenceRunner(FeedInput(df), [s])", "InferenceRunner(FeedInput(df, infinite=False), [s])"),
        (
            "InferenceRunner(FeedInput(df, infinite=False), s)",
            "InferenceRunner(FeedInput(df, infinite=False), s)",
        ),
        (
            "InferenceRunner(StagingInput(QueueInput(df)), s)",
            "InferenceRunner(StagingInput(QueueInput(df, infinite=False)), s)",
        ),
        (
            "DataParallelInferenceRunner(df, s, gpus=[0, 1])",
            'DataParallelInferenceRunner(df, s, devices=[f"/gpu:{k}" for k in [0, 1]])',
        ),
        ("AutoResumeTrainConfig(model=m)", 'TrainConfig(model=m, resume="auto")'),
        ("SyncMultiGPUTrainer([0, 1])", "SyncMultiGPUTrainer(gpus=[0, 1])"),
        ("launch_train_with_config(c, SimpleTrainer())", "SimpleTrainer(c).train()"),
        ("launch_train_with_config(trainer=SimpleTrainer(), config=c)", "SimpleTrainer(c).train()"),
        (
            "launch_train_with_config(c, SimpleTrainer() if n < 2 else AsyncMultiGPUTrainer(n, False))",
            "(SimpleTrainer(c) if n < 2 else AsyncMultiGPUTrainer(c, gpus=n, scale_gradient=False)).train()",
        ),
        ("logger.warn('x')", "logger.warning('x')"),
        ("BatchNorm('bn', x, sync_statistics=None)", "BatchNorm('bn', x, sync_statistics=None)"),
    ],
)
def test_calls_are_written_as_ours(before, after):
    assert rewritten(f"from tensorpack import *\n\n{before}\n").endswith(f"\n\n{after}\n")


@pytest.mark.parametrize(
    ("line", "section"),
    [
        ("tf.contrib.layers.batch_norm(x)", "#what-tensorflow-no-longer-has"),
        ("tf.layers.conv2d(x, 3, 3)", "#what-tensorflow-no-longer-has"),
        ("tf.nn.static_rnn(cell, x)", "#recurrent-networks"),
        ("launch_train_with_config(get_config(), trainer)", "#starting-a-training"),
        ("logger.set_logger_dir('x')", "#logging-and-directories"),
        ("MinSaver('x', reverse=True)", "#callbacks"),
        ("ModelSaver(*options)", "#arguments-without-a-counterpart"),
        ("SyncMultiGPUTrainerReplicated(4, gpus=2)", "#arguments-without-a-counterpart"),
        ("MultiThreadRunner(lambda: df, 2, 3)", "#names"),
        ("x = get_tf_version_tuple()", "#names"),
        ("TrainConfig(session_creator=NewSessionCreator())", "#sessions"),
        ("class A(Inferencer): pass", "#an-inferencer-of-your-own"),
        ("class A(TowerTrainer): pass", "#a-trainer-of-your-own"),
        ("class A(ModelDesc):\n    def _build_graph(self, inputs): pass", "#older-models"),
        ("if HorovodTrainer(): pass", "#training-over-processes"),
    ],
)
def test_what_needs_a_hand_is_marked_above_its_statement(line, section):
    script = f"import tensorflow as tf\nfrom tensorpack import *\n\n{line}\n"
    after = rewritten(script)
    marks = [text for text in after.splitlines() if text.strip().startswith(MARK)]
    assert any(text.endswith(f"docs/migrating-from-tensorpack.md{section}") for text in marks), after
    assert migrate_source(script.encode()).by_hand


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
    after = rewritten("from tensorpack import *\n__all__ = ['PrefetchDataZMQ', 'mine']\n")
    assert after.startswith("from towerpack_dataflow import MultiProcessRunner as PrefetchDataZMQ\n")


def test_both_branches_of_an_import_lead_to_the_wheel():
    first, second = "from tensorpack.dataflow import MapData", "from tensorpack import MapData"
    script = f"try:\n    {first}\nexcept ImportError:\n    {second}\n"
    after = rewritten(f"{script}MapData(f, g)\n")
    assert after.count("from towerpack_dataflow import MapData") == 2 and "tensorpack" not in after.replace(
        "towerpack", ""
    )


def test_a_trainer_that_is_made_before_its_configuration_is_marked():
    lines = (
        "trainer = SimpleTrainer()",
        "config = TrainConfig()",
        "launch_train_with_config(config, trainer)",
    )
    body = "".join(f"    {line}\n" for line in lines)
    after = rewritten(f"from tensorpack import *\n\ndef main():\n{body}")
    assert "trainer = SimpleTrainer()\n" in after and "#starting-a-training" in after


def test_flows_of_ones_own_are_written_as_ours():
    script = """from tensorpack import *

class Mine(RNGDataFlow):
    def __init__(self, ds):
        self.ds = ds

    def size(self):
        return self.ds.size()

    def get_data(self):
        for x in self.ds.get_data():
            yield x + self.rng.rand(2, 3) + self.rng.randint(5)

class Other:
    def size(self):
        return self.rng.rand()
"""
    after = rewritten(script)
    for text in ("__len__(self)", "len(self.ds)", "__iter__(self)", "in iter(self.ds)", "rng.random((2, 3))"):
        assert text in after
    assert after.endswith("    def size(self):\n        return self.rng.rand()\n")


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
    link.symlink_to(file)
    migrate_file(link, write=True)
    assert link.is_symlink() and file.read_text() == "from towerpack_dataflow import BatchData\n"


def test_the_status_says_whether_work_is_left(tmp_path, capsys):
    file = tmp_path / "a.py"
    file.write_text("from tensorpack import *\nMinSaver('x', reverse=True)\n")
    before = file.read_bytes()
    assert main(["migrate", str(file)]) == 3
    shown = capsys.readouterr()
    assert shown.out.startswith(f"--- {file}") and f"{file}:2: `MinSaver(reverse=True)`" in shown.err
    assert file.read_bytes() == before
    assert main(["migrate", "--write", str(file)]) == main(["migrate", str(file)]) == 3
    file.write_text("x = (\n")
    assert main(["migrate", "--write", str(file)]) == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"error: {file}:1:5: expected Python 3")
    assert file.read_text() == "x = (\n"


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


def test_a_keras_model_is_renamed_and_its_function_and_data_are_marked():
    script = (
        "from tensorpack.contrib.keras import KerasModel\n"
        "m = KerasModel(get_model, inputs_desc=a, targets_desc=b, input=data, trainer=t)\n"
    )
    migration = migrate_source(script.encode())
    after = migration.after.decode()
    assert "from towerpack_trainers import KerasModel\n" in after
    assert "m = KerasModel(get_model, inputs=a, targets=b, trainer=t)\n" in after
    assert {text.partition(": ")[2].partition("#")[2] for _, text in migration.by_hand} == {"keras-models"}
    assert migrate_source(migration.after).after == migration.after


@pytest.mark.parametrize(
    ("body", "after"),
    [
        ("from tensorpack import *  # why", "if 1:  # why\n    from towerpack_dataflow import BatchData\n"),
        (
            "a = 1; from tensorpack import *",
            "if 1:\n    a = 1\n    from towerpack_dataflow import BatchData\n",
        ),
        ("from tensorpack import logger", "if 1:\n    pass\n"),
    ],
)
def test_an_import_on_the_line_of_its_header_is_rewritten(body, after):
    use = "d = BatchData(x, 4)\n" if "*" in body else ""
    assert migrate_source(f"if 1: {body}\n{use}".encode()).after.decode() == after + use


@pytest.mark.parametrize(
    "line", ["import tensorflow.contrib.slim as slim", "from tensorflow.contrib import slim"]
)
def test_an_import_of_tensorflows_contrib_is_marked_once(line):
    migration = migrate_source(f"from tensorpack import *\n{line}\nx = slim.conv2d(BatchData, 3)\n".encode())
    assert ["contrib" in text for _, text in migration.by_hand] == [True]
    assert migrate_source(migration.after).after == migration.after
