"""The contents of a bug report."""

import sys

import numpy as np
import pytest
import tensorflow as tf

from towerpack_trainers import collect_env_info, get_num_gpu
from towerpack_trainers.__main__ import main


def test_it_names_versions_devices_and_settings(monkeypatch, capsys):
    monkeypatch.setenv("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    monkeypatch.setenv("SECRET_TOKEN", "hidden")
    facts = dict(
        line.split(maxsplit=1) for line in collect_env_info().replace("cpu cores", "cores").splitlines()
    )
    installed = facts["tensorflow"].split(" (tf-nightly)")[0].replace(".dev", "-dev")
    assert installed == tf.__version__ and facts["numpy"] == np.__version__
    assert sys.version.split()[0] in facts["python"]
    assert "CPU:0" in facts["devices"] and facts["TF_FORCE_GPU_ALLOW_GROWTH"] == "true"
    assert "SECRET_TOKEN" not in facts and "hidden" not in str(facts)
    assert main(["env"]) == 0
    assert capsys.readouterr().out.strip() == collect_env_info()


@pytest.mark.parametrize("name", ["TOWERPACK_TOKEN", "TF_CONFIG", "TF_MY_PASSWORD", "NCCL_TOKEN"])
def test_a_variable_that_may_hold_a_secret_is_left_out(name, monkeypatch):
    monkeypatch.setenv(name, "hidden")
    assert name not in collect_env_info() and "hidden" not in collect_env_info()


def test_gpus_are_those_that_tensorflow_finds():
    assert get_num_gpu() == len(tf.config.list_physical_devices("GPU"))
