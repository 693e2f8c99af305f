"""The devices of shared variables."""

import pytest
import tensorflow.compat.v1 as tf
from hypothesis import given
from hypothesis import strategies as st

from towerpack_trainers import (
    ConfigError,
    ModelDesc,
    SyncMultiGPUParameterServerBuilder,
    SyncMultiGPUTrainerParameterServer,
)
from towerpack_trainers.replicate import LeastLoaded

TWO = ["/cpu:1", "/cpu:2"]


@given(st.lists(st.integers(0, 1000), max_size=50), st.integers(1, 5))
def test_devices_are_balanced(sizes, count):
    devices = [f"/cpu:{index}" for index in range(count)]
    place = LeastLoaded(devices)
    chosen = [place(size) for size in sizes]
    loads = [sum(size for size, device in zip(sizes, chosen) if device == each) for each in devices]
    assert max(loads) - min(loads) <= max(sizes, default=0) + len(sizes)


def test_no_device_to_place_on():
    with pytest.raises(ConfigError, match="LeastLoaded received no devices"):
        LeastLoaded([])


class Layers(ModelDesc):
    """Four variables of 400, 80, 160 and 240 bytes."""

    def inputs(self):
        return [tf.TensorSpec([], tf.float32, "x")]

    def build_graph(self, x):
        sizes = {"a": 100, "b": 20, "c": 40, "d": 60}
        made = [
            tf.get_variable(name, [size], initializer=tf.ones_initializer()) for name, size in sizes.items()
        ]
        return tf.add_n([tf.reduce_sum(variable) * x for variable in made], name="cost")

    def optimizer(self):
        return tf.train.MomentumOptimizer(0.1, 0.9)


def device_of(variable):
    return tf.DeviceSpec.from_string(variable.device).device_index


def test_variables_are_spread_and_slots_follow_them(configure):
    trainer = SyncMultiGPUTrainerParameterServer(
        configure(model=Layers(), dataflow=[[1.0]] * 4), TWO, ps_device="gpu"
    )
    devices = {v.op.name: device_of(v) for v in trainer.graph.get_collection("variables")}
    assert {name: devices[name] for name in "abcd"} == {"a": 1, "b": 2, "c": 2, "d": 2}
    assert {name: devices[f"{name}/Momentum"] for name in "abcd"} == {"a": 1, "b": 2, "c": 2, "d": 2}
    trainer.train()


def test_each_tower_reads_and_computes_on_its_own_device(configure):
    trainer = SyncMultiGPUTrainerParameterServer(configure(model=Layers(), dataflow=[[1.0]] * 4), TWO)
    for index, own in enumerate([1, 2]):
        ops = [op for op in trainer.graph.get_operations() if op.name.startswith(f"tower{index}/gradients/")]
        computing = [op for op in ops if op.type == "Mul"]
        assert computing
        assert {tf.DeviceSpec.from_string(op.device).device_index for op in computing} == {own}


def test_gradients_are_averaged_on_the_device_of_their_variable():
    with tf.Graph().as_default() as graph:
        builder = SyncMultiGPUParameterServerBuilder(TWO, variable_devices=["/cpu:0", "/cpu:3"])
        builder.build(Layers().build_graph, lambda: [tf.constant(1.0)], Layers().optimizer)
        averages = [op for op in graph.get_operations() if op.type == "AddN" and "tower" not in op.name]
        devices = [tf.DeviceSpec.from_string(op.device).device_index for op in averages]
    assert devices == [0, 3, 3, 3]


@pytest.mark.parametrize("ps_device", ["/cpu:0", 0])
def test_invalid_places(configure, ps_device):
    with pytest.raises(ConfigError, match=r'ps_device=.*: expected "cpu", "gpu" or None'):
        SyncMultiGPUTrainerParameterServer(configure(), TWO, ps_device=ps_device)
