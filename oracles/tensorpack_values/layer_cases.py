"""All layers with fixed weights and inputs: outputs, gradients, variables, collections and initial values.

Without `Maxout`, which Tensorpack 0.11 cannot build on this TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from cases import add, case, drawn, raised
from tensorpack import (
    AvgPooling,
    BatchNorm,
    BatchRenorm,
    BNReLU,
    ConcatWith,
    Conv2D,
    Conv2DTranspose,
    Deconv2D,
    Dropout,
    FixedUnPooling,
    FullyConnected,
    GlobalAvgPooling,
    InstanceNorm,
    LayerNorm,
    LinearWrap,
    MaxPooling,
    PReLU,
    argscope,
    get_arg_scope,
    l1_regularizer,
    l2_regularizer,
    layer_register,
    regularize_cost,
    regularize_cost_from_collection,
)
from tensorpack.tfutils.scope_utils import auto_reuse_variable_scope
from tensorpack.tfutils.tower import TowerContext, TrainTowerContext

IMAGES, ROWS = drawn("images", (4, 6, 8, 4)), drawn("rows", (4, 6))
MAT = np.array([[1, 2], [3, 4]], "float32")
Layer = Callable[[Any], Any]
HELD = ("W", "b", "gamma", "beta", "mean", "variance", "moving_mean", "moving_variance")
RANDOM = {"kernel_initializer": tf.random_normal_initializer()}
OF_IMAGES: dict[str, Layer] = {
    "Conv2D": lambda x: Conv2D("layer", x, 8, 3),
    "Conv2D_valid": lambda x: Conv2D(
        "layer", x, 8, (2, 3), strides=2, padding="VALID", activation=tf.nn.relu
    ),
    "Conv2D_dilated": lambda x: Conv2D("layer", x, 8, 3, dilation_rate=2, use_bias=False),
    "Conv2D_split": lambda x: Conv2D("layer", x, 8, 3, split=2, activation=tf.tanh),
    "Conv2D_old": lambda x: Conv2D(
        "layer", x, out_channel=8, kernel_shape=3, stride=2, nl=tf.nn.relu, W_init=tf.zeros_initializer()
    ),
    "Conv2D_regularized": lambda x: Conv2D("layer", x, 8, 3, kernel_regularizer=l2_regularizer(0.1)),
    "Conv2D_strides": lambda x: Conv2D("layer", x, 8, [3, 5], strides=[1, 2], **RANDOM),
    "Conv2DTranspose": lambda x: Conv2DTranspose("layer", x, 5, 3, 2),
    "Conv2DTranspose_valid": lambda x: Conv2DTranspose("layer", x, 5, (3, 4), (2, 1), padding="valid"),
    "Deconv2D": lambda x: Deconv2D("layer", x, out_channel=5, kernel_shape=4, stride=2, nl=tf.identity),
    "FullyConnected_images": lambda x: FullyConnected("layer", x, 7, activation=tf.nn.relu),
    "MaxPooling": lambda x: MaxPooling("layer", x, 2),
    "MaxPooling_same": lambda x: MaxPooling("layer", x, 3, 2, padding="SAME"),
    "MaxPooling_old": lambda x: MaxPooling("layer", x, shape=(2, 3), stride=(1, 2)),
    "AvgPooling": lambda x: AvgPooling("layer", x, 3, strides=2, padding="same"),
    "AvgPooling_default": lambda x: AvgPooling("layer", x, (2, 4)),
    "GlobalAvgPooling": lambda x: GlobalAvgPooling("layer", x),
    "FixedUnPooling": lambda x: FixedUnPooling("layer", x, 2),
    "FixedUnPooling_shape": lambda x: FixedUnPooling("layer", x, (3, 2)),
    "FixedUnPooling_matrix": lambda x: FixedUnPooling("layer", x, 2, unpool_mat=MAT),
    "BatchNorm": lambda x: BatchNorm("layer", x),
    "BatchNorm_options": lambda x: BatchNorm("layer", x, momentum=0.7, epsilon=1e-3, scale=False),
    "BatchNorm_uncentered": lambda x: BatchNorm("layer", x, center=False, ema_update="internal"),
    "BatchNorm_skip": lambda x: BatchNorm("layer", x, ema_update="skip"),
    "BatchNorm_frozen": lambda x: BatchNorm("layer", x, training=False),
    "BatchNorm_training": lambda x: BatchNorm("layer", x, training=True),
    "BatchNorm_old": lambda x: BatchNorm("layer", x, decay=0.5, use_bias=False, use_local_stat=True),
    "BatchNorm_ghost": lambda x: BatchNorm("layer", x, virtual_batch_size=2),
    "BatchRenorm": lambda x: BatchRenorm("layer", x, rmax=2.0, dmax=3.0),
    "LayerNorm": lambda x: LayerNorm("layer", x),
    "LayerNorm_plain": lambda x: LayerNorm("layer", x, center=False, scale=False, epsilon=1e-2),
    "InstanceNorm": lambda x: InstanceNorm("layer", x),
    "InstanceNorm_plain": lambda x: InstanceNorm("layer", x, center=False, scale=False),
    "PReLU": lambda x: PReLU("layer", x),
    "PReLU_init": lambda x: PReLU("layer", x, 0.3),
    "BNReLU": lambda x: BNReLU("layer", x),
    "BNReLU_nameless": lambda x: BNReLU(x),
    "Dropout_keep_all": lambda x: Dropout("layer", x, keep_prob=1.0),
    "Dropout_rate": lambda x: Dropout(x, rate=0.0),
    "ConcatWith": lambda x: ConcatWith(x, [x, x * 2], 3),
    "ConcatWith_one": lambda x: ConcatWith("layer", x, x, 0),
    "LinearWrap": lambda x: (
        LinearWrap(x)
        .Conv2D("a", 4, 3)
        .BNReLU("b")
        .MaxPooling("c", 2)
        .tf.nn.relu()
        .apply(tf.square)
        .GlobalAvgPooling("d")()
    ),
    "LinearWrap_tensor": lambda x: LinearWrap(x).FullyConnected("a", 5, activation=tf.nn.relu).tensor(),
    "NCHW_to_NHWC": lambda x: Conv2D("layer", x, 4, 3, data_format="NHWC"),
}
OF_ROWS: dict[str, Layer] = {
    "FullyConnected": lambda x: FullyConnected("layer", x, 5),
    "FullyConnected_options": lambda x: FullyConnected("layer", x, units=5, use_bias=False, **RANDOM),
    "FullyConnected_old": lambda x: FullyConnected(
        "layer", x, out_dim=5, nl=tf.tanh, W_init=tf.ones_initializer(), b_init=tf.constant_initializer(0.5)
    ),
    "FullyConnected_regularized": lambda x: FullyConnected(
        "layer", x, 5, kernel_regularizer=l1_regularizer(0.1)
    ),
    "BatchNorm_rows": lambda x: BatchNorm("layer", x),
    "BatchNorm_rows_ghost": lambda x: BatchNorm("layer", x, virtual_batch_size=2),
    "LayerNorm_rows": lambda x: LayerNorm("layer", x),
}


def fixed(session: tf.Session) -> dict[str, str]:
    """Gives all variables values that depend on their names alone, and returns names, shapes and types."""
    session.run(tf.global_variables_initializer())
    names = {}
    for variable in sorted(tf.global_variables(), key=lambda each: each.op.name):
        low = 0.5 if "variance" in variable.op.name or "stddev" in variable.op.name else -0.5
        shape = variable.shape.as_list()
        if variable.dtype.base_dtype.is_floating:
            variable.load(drawn(variable.op.name, shape, low, low + 1), session)
        names[variable.op.name] = f"{shape} {variable.dtype.base_dtype.name}"
    return names


def of_collections() -> dict[str, list[str]]:
    """The numbers and names of what layers add to collections."""
    keys = tf.GraphKeys
    names = {
        key: sorted(each.op.name for each in tf.get_collection(key))
        for key in (keys.TRAINABLE_VARIABLES, keys.MODEL_VARIABLES)
    }
    counts = {key: len(tf.get_collection(key)) for key in (keys.UPDATE_OPS, keys.REGULARIZATION_LOSSES)}
    return {**names, **counts}


def built(layer: Layer, x: np.ndarray, is_training: bool) -> Any:
    """Builds a layer, and computes with it: the output, gradients, updates and collections."""
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.get_or_create_global_step()
        place = tf.placeholder(tf.float32, [None, *x.shape[1:]], "x")
        with TowerContext("tower0" if is_training else "", is_training):
            output = layer(place)
        names = fixed(session)
        weights = tf.constant(drawn("weights", (256,)))[: tf.size(output)]
        cost = tf.reduce_sum(tf.reshape(output, [-1])[:256] * weights)
        targets = [place, *sorted(tf.trainable_variables(), key=lambda each: each.op.name)]
        slopes = [each for each in tf.gradients(cost, targets) if each is not None]
        found = session.run([output, *slopes], {place: x})
        losses = session.run(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES))
        session.run(tf.get_collection(tf.GraphKeys.UPDATE_OPS), {place: x})
        after = session.run({each.op.name: each for each in tf.global_variables()})
        held = getattr(output, "variables", None)
        return {
            "values": found,
            "name": output.op.name,
            "static": str(output.shape.as_list()),
            "variables": names,
            "after": after,
            "losses": losses,
            "collections": of_collections(),
            "held": [name for name in HELD if not raised(getattr, held, name)],
        }


for name, layer in {**OF_IMAGES, **OF_ROWS}.items():
    x = ROWS if name in OF_ROWS else IMAGES
    for is_training in (True, False):
        place = f"layer/{name}{'' if is_training else '_predicting'}"
        add(place, lambda layer=layer, x=x, is_training=is_training: built(layer, x, is_training))


@case
def initial_values() -> Any:
    with tf.Graph().as_default(), tf.Session() as session, TowerContext("", True):
        Conv2D("conv", tf.zeros([1, 8, 8, 64]), 128, 5)
        Conv2D("split", tf.zeros([1, 8, 8, 64]), 128, 5, split=4)
        Conv2DTranspose("deconv", tf.zeros([1, 8, 8, 64]), 128, 5)
        FullyConnected("fc", tf.zeros([1, 1000]), 500)
        PReLU("prelu", tf.zeros([1, 8]))
        BatchNorm("bn", tf.zeros([1, 8]))
        LayerNorm("ln", tf.zeros([1, 8]))
        session.run(tf.global_variables_initializer())
        values = session.run({each.op.name: each for each in tf.global_variables()})
    found = {name: {"~std": value.std()} for name, value in values.items()}
    for name, value in values.items():
        within = abs(value) < 1.5 * value.std()
        found[name]["~shape"] = within.mean()  # tells normal from uniform and truncated
    return found


@case
def dropout_scales() -> Any:
    with tf.Graph().as_default(), tf.Session() as session:
        with TowerContext("", True):
            kept = [Dropout("a", tf.ones([20000]), keep_prob=0.8), Dropout("b", tf.ones([20000]), rate=0.3)]
            kept += [Dropout("c", tf.ones([20000]), 0.8), Dropout("d", tf.ones([20000]))]
        found = session.run(kept)
    return [{"most": each.max(), "~kept": (each > 0).mean()} for each in found]


@case
def scopes_of_arguments() -> Any:
    with tf.Graph().as_default(), tf.Session() as session, TowerContext("", True):
        x = tf.constant(IMAGES)
        with argscope([Conv2D, MaxPooling], padding="valid"), argscope(Conv2D, activation=tf.nn.relu):
            inside = {key: sorted(value) for key, value in get_arg_scope().items()}
            with argscope(Conv2D, activation=tf.tanh, kernel_size=2):
                y = Conv2D("a", x, 5)
            y = MaxPooling("b", Conv2D("c", y, 3, 3, padding="same"), 2)
        outside = sorted(get_arg_scope())
        fixed(session)
        return session.run(y), inside, outside


@case
def own_layers() -> Any:
    @layer_register()
    def OwnDense(x: Any, units: int, bias: float = 1.0) -> Any:
        w = tf.get_variable("w", [x.shape[1], units])
        return tf.matmul(x, w) + bias

    @layer_register(use_scope=False)
    def OwnNameless(x: Any) -> Any:
        return x * 2

    @layer_register(use_scope=None)
    def OwnEither(x: Any) -> Any:
        return x + tf.get_variable("more", [])

    with tf.Graph().as_default(), tf.Session() as session, TowerContext("", True):
        x = tf.constant(ROWS)
        with argscope(OwnDense, bias=3.0):
            y = LinearWrap(OwnDense("a", x, 5)).OwnNameless().OwnEither("e").OwnEither()()
        names = fixed(session)
        errors = [raised(OwnDense, x, 5), raised(OwnNameless, "a", x)]
        return session.run(y), names, errors, y.op.name


@case
def shared_variables() -> Any:
    @auto_reuse_variable_scope
    def part(x: Any) -> Any:
        return FullyConnected("fc", x, 6, activation=tf.nn.relu)

    with tf.Graph().as_default(), tf.Session() as session, TowerContext("", True):
        y = part(part(tf.constant(ROWS)))
        with tf.variable_scope("other"):
            y = part(y)
        names = fixed(session)
        return session.run(y), names, y.op.name


@case
def regularized_costs() -> Any:
    with tf.Graph().as_default(), tf.Session() as session, TowerContext("", True):
        x = tf.constant(ROWS)
        y = FullyConnected("one", x, 5, kernel_regularizer=l2_regularizer(0.2))
        FullyConnected("two", y, 5)
        costs = [
            regularize_cost("fc.*/W", l2_regularizer(0.1)),
            regularize_cost(".*/W", l2_regularizer(0.1)),
            regularize_cost("one/.*", tf.nn.l2_loss, name="named"),
            regularize_cost(".*/b", l1_regularizer(0.1)),
            regularize_cost_from_collection(),
        ]
        fixed(session)
        return session.run([tf.convert_to_tensor(each) for each in costs]), [
            each.op.name for each in costs[1:]
        ]


@case
def regularized_towers() -> Any:
    def costs() -> list[Any]:
        y = FullyConnected("one", tf.constant(ROWS), 5, kernel_regularizer=l2_regularizer(0.2))
        FullyConnected("two", y, 5)
        found = [regularize_cost(".*/W", l2_regularizer(0.1)), regularize_cost("^one/W", tf.nn.l2_loss)]
        return [*found, regularize_cost_from_collection()]

    values = []
    for scopes in (("", ""), ("", "tower1")):  # shared variables, and each tower's own
        with tf.Graph().as_default(), tf.Session() as session:
            towers = []
            for number, scope in enumerate(scopes):
                reuse = tf.variable_scope(tf.get_variable_scope(), reuse=number > 0 and not scope)
                with reuse, TrainTowerContext(f"tower{number}", scope, number, 2):
                    towers.append(costs())
            names = fixed(session)
            values.append((session.run(towers), names))
    return values


@case
def empty_names() -> Any:
    with tf.Graph().as_default(), tf.Session() as session, TowerContext("", True):
        with tf.variable_scope("outer"):
            y = FullyConnected("", tf.constant(ROWS), 5)
        names = fixed(session)
        return session.run(y), names


@case
def regularized_only_in_training() -> Any:
    with tf.Graph().as_default(), tf.Session() as session, TowerContext("", False):
        FullyConnected("a", tf.constant(ROWS), 5, kernel_regularizer=l2_regularizer(0.2))
        costs = [regularize_cost(".*/W", l2_regularizer(0.1)), regularize_cost_from_collection()]
        fixed(session)
        return session.run([tf.convert_to_tensor(each) for each in costs])
