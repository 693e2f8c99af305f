"""Averages over towers with separate variables: the same in every mode."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_trainers import ConfigError, default_session_config
from towerpack_trainers.replicate._allreduce import all_reduce, choose_mode, sum_in_two_groups

CPUS = [f"/cpu:{index}" for index in range(8)]


def tower_gradients(towers):
    """For each tower: dense, sparse, of another dtype, of unknown shape, dense."""
    rng = np.random.default_rng(0)
    rows = []
    for device in CPUS[:towers]:
        with tf.device(device):
            unknown = tf.placeholder_with_default(rng.normal(size=(2, 3)), [None, 3])
            rows.append(
                [
                    tf.constant(rng.normal(size=(3, 4)).astype(np.float32)),
                    tf.IndexedSlices(
                        tf.constant(rng.normal(size=(2, 2))), tf.constant(rng.integers(0, 4, 2)), [4, 2]
                    ),
                    tf.constant(rng.normal(size=7)),
                    unknown,
                    tf.constant(rng.normal(size=()).astype(np.float32)),
                ]
            )
    return rows


@pytest.mark.parametrize("mode", ["cpu", "hierarchical"])
@pytest.mark.parametrize("towers", [2, 3, 4, 8])
def test_every_tower_gets_the_averages_in_order(mode, towers):
    devices = CPUS[:towers]
    with tf.Graph().as_default(), tf.Session(config=default_session_config(devices)) as sess:
        given = tower_gradients(towers)
        averages = all_reduce(given, devices, mode)
        given, averages = sess.run(
            [
                [[tf.convert_to_tensor(gradient) for gradient in row] for row in side]
                for side in (given, averages)
            ]
        )
    wanted = [np.mean(column, axis=0) for column in zip(*given)]
    for row in averages:
        for value, expected in zip(row, wanted, strict=True):
            np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)
            assert value.dtype == expected.dtype
    # Equal bits; otherwise replicas would drift apart.
    assert len({b"".join(value.tobytes() for value in row) for row in averages}) == 1


def test_two_groups_meet_once():
    with tf.Graph().as_default(), tf.Session(config=default_session_config(CPUS)) as sess:
        tensors = []
        for index, device in enumerate(CPUS):
            with tf.device(device):
                tensors.append(tf.constant(float(2**index)))
        sums = sum_in_two_groups(tensors, CPUS, number=5)
        assert sess.run(sums) == [255.0] * 8
        meeting = {tf.DeviceSpec.from_string(total.device).device_index for total in sums}
        assert meeting == {1, 5}
        adds = [op for op in sess.graph.get_operations() if op.type == "AddN"]
        assert [len(op.inputs) for op in adds] == [4, 4]


def test_nccl_gets_one_packed_tensor_of_each_gpu(monkeypatch):
    """The graph is built as for GPUs; running it would require GPUs."""
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["one", "other"])
    devices = ["/gpu:0", "/gpu:1"]
    assert choose_mode(None, devices) == "nccl"
    with tf.Graph().as_default() as graph:
        rows = []
        for device in devices:
            with tf.device(device):
                rows.append([tf.ones([3, 4]), tf.ones([2]), tf.ones([])])
        all_reduce(rows, devices, "nccl")
        ops = [op for op in graph.get_operations() if op.type == "NcclAllReduce"]
    by_name = {}
    for op in ops:
        assert (op.get_attr("num_devices"), op.get_attr("reduction")) == (2, b"sum")
        by_name.setdefault(op.get_attr("shared_name"), []).append(op)
    for group in by_name.values():
        assert [tf.DeviceSpec.from_string(op.device).device_index for op in group] == [0, 1]
        assert group[0].inputs[0].shape == group[1].inputs[0].shape
    assert sum(group[0].inputs[0].shape.num_elements() for group in by_name.values()) == 15


@pytest.mark.parametrize(
    ("mode", "devices", "message"),
    [
        ("gpu", ["/cpu:0"], r"mode='gpu': expected one of 'nccl', 'hierarchical', 'cpu', or None"),
        ("nccl", ["/cpu:0", "/cpu:1"], r"works between GPUs, but the towers are on /cpu:0, /cpu:1. Use mode"),
        ("nccl", ["/gpu:0"], r"works between GPUs, but the towers are on /gpu:0"),
        ("hierarchical", ["/cpu:0"], r"two groups, but there is only one. Use mode=\"cpu\""),
    ],
)
def test_unsupported_modes(mode, devices, message):
    with pytest.raises(ConfigError, match=message):
        choose_mode(mode, devices)


def test_the_default_mode():
    assert choose_mode(None, ["/cpu:0", "/cpu:1"]) == "cpu"
    assert choose_mode(None, ["/gpu:0"]) == "cpu"
