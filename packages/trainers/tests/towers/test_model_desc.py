"""The required methods of a model, and their return values."""

import pytest
import tensorflow.compat.v1 as tf

from towerpack_trainers import (
    ModelDesc,
    ModelError,
    SimpleTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
)


def spec(name, dtype=tf.float32):
    return tf.TensorSpec([None], dtype, name)


@pytest.mark.parametrize(
    ("specs", "message"),
    [
        (None, r"inputs\(\) must return a list of tf.TensorSpec, received None. Give one for each"),
        (spec("x"), r"inputs\(\) must return a list of tf.TensorSpec, received TensorSpec"),
        (["x", "y"], r"received an element 'x'. Write tf.TensorSpec\(\[None, 28, 28\]"),
        ([spec(None)], r"needs a name without ':', '/' and spaces"),
        ([spec("x:0")], r"needs a name without"),
        ([spec("a/b")], r"needs a name without"),
        ([spec("x"), spec("x")], r"names must be distinct, received \['x', 'x'\]"),
    ],
    ids=["none", "one", "strings", "unnamed", "colon", "slash", "twice"],
)
def test_inputs_are_named_specs(kit, configure, specs, message):
    class Model(kit.Line):
        def inputs(self):
            return specs

    with pytest.raises(ModelError, match=message):
        SimpleTrainer(configure(model=Model()))


@pytest.mark.parametrize(
    "function",
    [lambda x: x, lambda x, y, z: x, lambda: None, lambda *, x, y: x],
    ids=["one", "three", "none", "by name"],
)
def test_build_graph_takes_each_input(kit, configure, function):
    model = type("Model", (kit.Line,), {"build_graph": staticmethod(function)})()
    with pytest.raises(
        ModelError, match=r"<lambda>\(.*\) cannot take the 2 inputs \['x', 'y'\].*change its parameters"
    ):
        SimpleTrainer(configure(model=model))


def test_build_graph_may_take_more_than_it_must(kit, configure):
    def build_graph(self, *inputs, scale=1.0):
        return kit.Line.build_graph(self, *inputs) * scale

    SimpleTrainer(configure(model=type("Model", (kit.Line,), {"build_graph": build_graph})()))


def test_inputs_cannot_be_empty(kit, configure):
    class Model(kit.Line):
        def inputs(self):
            return []

    with pytest.raises(ValueError, match=r"received no specs. Give one tf.TensorSpec for each component"):
        SimpleTrainer(configure(model=Model()))


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda cost: None, r"returned None for a training tower.*Is a `return cost` missing\?"),
        (lambda cost: 0.5, r"must return the cost, a scalar tensor; received 0.5 of type float"),
        (lambda cost: [cost], r"must return the cost, a scalar tensor; received \[<tf.Tensor.*tf.identity\("),
        (lambda cost: tf.stack([cost, cost], name="two"), r"received 'two:0' of shape \(2,\). Reduce it"),
        (lambda cost: tf.cast(cost, tf.int32, name="whole"), r"'whole:0' has dtype int32; expected a float"),
        (lambda cost: tf.constant(1.0), r"The cost depends on no trainable variable"),
        (lambda cost: tf.stop_gradient(cost), r"The cost depends on no trainable variable"),
    ],
    ids=["none", "number", "list", "vector", "integer", "constant", "stopped"],
)
def test_the_cost_is_a_scalar_that_can_be_trained(kit, configure, returned, message):
    class Model(kit.Line):
        def build_graph(self, x, y):
            return returned(super().build_graph(x, y))

    with pytest.raises(ModelError, match=message):
        SimpleTrainer(configure(model=Model()))


def test_variables_without_effect_on_the_cost_are_named(kit, configure, caplog):
    class Model(kit.Line):
        def build_graph(self, x, y):
            tf.get_variable("lonely", [])
            return super().build_graph(x, y)

    SimpleTrainer(configure(model=Model()))
    assert "The cost does not depend on: lonely. They are not trained." in caplog.text


def test_a_model_without_optimizer_raises_an_error_with_advice(configure):
    class Model(ModelDesc):
        def inputs(self):
            return [spec("x"), spec("y")]

        def build_graph(self, x, y):
            return tf.reduce_mean(x * tf.get_variable("w", []) - y)

    with pytest.raises(
        NotImplementedError, match=r"Model has no optimizer. Define optimizer\(self\), or use Train"
    ):
        SimpleTrainer(configure(model=Model()))
    SimpleTrainer(configure(model=Model(), optimizer=tf.train.AdamOptimizer))


def test_an_error_in_the_model_is_raised_unchanged(kit, configure):
    class Model(kit.Line):
        def build_graph(self, x, y):
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        SimpleTrainer(configure(model=Model()))


def test_training_is_defined_only_inside_build_graph(kit, configure):
    seen = []

    class Model(kit.Line):
        def build_graph(self, x, y):
            seen.append(self.training)
            return super().build_graph(x, y)

    model = Model()
    trainer = SimpleTrainer(configure(model=model))
    trainer.get_predictor(["x"], ["error"])
    assert seen == [True, False]
    assert not model.training


def test_a_model_and_a_config_serve_several_trainers(kit, configure):
    kept = kit.Weights()
    config = configure(callbacks=[kept], optimizer=tf.train.AdamOptimizer(0.1))
    first, second = SimpleTrainer(config), SimpleTrainer(config)
    first.train()
    weights = kept.values
    second.train()
    assert weights == kept.values
    assert first.loop.global_step == second.loop.global_step == 10


def needed_by(last):
    """All ops that must have run before an op."""
    found, ahead = set(), [last]
    while ahead:
        op = ahead.pop()
        before = {tensor.op for tensor in op.inputs}.union(op.control_inputs) - found
        found |= before
        ahead += before
    return found


def computed_by(tensor):
    """The op that computes a tensor, before ops that only wait."""
    while tensor.op.type == "Identity":
        tensor = tensor.op.inputs[0]
    return tensor.op


def test_gradients_wait_for_none_of_the_others_and_updates_for_all(kit, configure):
    trainer = SimpleTrainer(configure(model=kit.Random(), dataflow=kit.net_data()))
    updates = [op for op in trainer.graph.get_operations() if op.type == "ResourceApplyMomentum"]
    gradients = {computed_by(update.inputs[3]) for update in updates}
    assert len(gradients) == len(updates) == 4
    for gradient in gradients:
        assert not gradients & needed_by(gradient)
    for update in updates:
        assert gradients <= needed_by(update)


@pytest.mark.parametrize("trainer", [SyncMultiGPUTrainerParameterServer, SyncMultiGPUTrainerReplicated])
def test_updates_of_towers_wait_for_the_gradients_of_all(kit, configure, trainer):
    config = configure(model=kit.Random(), dataflow=kit.net_data())
    operations = trainer(config, devices=["/cpu:0", "/cpu:1"]).graph.get_operations()
    gradients = {op for op in operations if op.name.endswith("MatMul_grad/MatMul_1")}
    assert len(gradients) == 4
    for gradient in gradients:
        assert not gradients & needed_by(gradient)
    for update in (op for op in operations if op.type == "ResourceApplyMomentum"):
        assert gradients <= needed_by(update)
