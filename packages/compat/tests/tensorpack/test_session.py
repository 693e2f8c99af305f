"""Values of variables, from dictionaries and checkpoints."""

from __future__ import annotations

import pytest


@pytest.mark.slow
def test_values_are_assigned_in_one_run_unless_variables_begin_with_one_tensor(python) -> None:
    code = """
import towerpack_compat
towerpack_compat.install(report=False)
import numpy as np
import tensorflow as tf
from tensorpack import *

values = {name: np.full(2, number, 'float32') for number, name in enumerate('abcde')}
for name in 'abc':
    tf.get_variable(name, [2])
begin = tf.zeros([2])
for name in 'de':
    tf.get_variable(name, initializer=begin)
tf.get_variable('other', [3], initializer=tf.ones_initializer())
sess = tf.Session()
sess.run(tf.global_variables_initializer())
runs, run = [], sess.run
sess.run = lambda *arguments: runs.append(arguments) or run(*arguments)
SmartInit({**values, 'other': np.zeros(4, 'float32')}, ignore_mismatch=True).init(sess)
found = [value.max() for value in run(tf.global_variables())]
print(len(runs), list(map(int, found)))
"""
    assert python(code=code).splitlines()[-1] == "2 [0, 1, 2, 3, 4, 1]"


@pytest.mark.slow
def test_files_of_variables_have_their_names_and_order(python, tmp_path) -> None:
    for step in (16, 8):
        (tmp_path / f"model-{step}.index").touch()
    code = """
import towerpack_compat
towerpack_compat.install(report=False)
import numpy as np
import tensorflow as tf
from tensorpack.tfutils.varmanip import *

tf.get_variable('fc/W', [2])
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    dump_session_params('weights.npz')
save_chkpt_vars(dict(np.load('weights.npz')), './weights')
print(np.load('weights.npz').files, *load_chkpt_vars('weights'), get_all_checkpoints('.'))
"""
    shown = "['fc/W:0'] fc/W [('model-8', 8), ('model-16', 16)]"
    assert python(code=code).splitlines()[-1] == shown
