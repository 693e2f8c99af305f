"""Keras models trained by Keras and by a trainer: the same weights after five steps."""

import os

import keras
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_trainers import KerasModel
from towerpack_trainers.testing import FinalVariables

layers, losses = keras.layers, keras.losses
STEPS = min(20, int(os.environ.get("TOWERPACK_EXAMPLES", 5)))
BATCH, TIMES, WORDS = 6, 5, 7
pytestmark = pytest.mark.slow


def chain(*parts):
    return keras.Sequential(parts, name="net")


def words(*parts):
    return chain(keras.Input([TIMES]), layers.Embedding(WORDS, 4, mask_zero=True), *parts)


def attention():
    given = keras.Input([TIMES], name="words")
    embedded = layers.Embedding(WORDS, 4, mask_zero=True)(given)
    attended = layers.MultiHeadAttention(2, 3)(embedded, embedded)
    return keras.Model(given, layers.Dense(1)(layers.Add()([embedded, attended])), name="net")


def twins(kinds=list):
    one, two = keras.Input([3], name="left"), keras.Input([3], name="right")
    joined = layers.Concatenate()([one, layers.Dense(4, activation="tanh")(two)])
    outputs = {
        "a": layers.Dense(1, name="a")(joined),
        "b": layers.Dense(3, name="b", activation="softmax")(joined),
    }
    return keras.Model([one, two], outputs if kinds is dict else list(outputs.values()), name="net")


class Subclassed(keras.Model):
    """A model with a cost function and a computed mask."""

    def __init__(self):
        super().__init__(name="net")
        self.hidden, self.last = layers.Dense(4, activation="tanh"), layers.Dense(1)

    def build(self, shape):
        self.hidden.build(shape)
        self.last.build([None, 4])

    def call(self, x):
        hidden = self.hidden(x)
        self.add_loss(0.1 * keras.ops.mean(keras.ops.square(hidden)))
        return self.last(hidden)


def dense(*shape):
    return lambda random: random.normal(size=[BATCH, *shape]).astype(np.float32)


def sparse(count, *shape):
    return lambda random: random.integers(0, count, [BATCH, *shape]).astype(np.int32)


def floats(count, *shape):
    return lambda random: random.integers(0, count, [BATCH, *shape]).astype(np.float32)


def one_hot(count):
    return lambda random: np.eye(count, dtype=np.float32)[random.integers(0, count, BATCH)]


def positive(*shape):
    return lambda random: random.uniform(0.0, 2, [BATCH, *shape]).astype(np.float32)


def padded(random):
    """Sequences of words padded with zeros; the first one has no words."""
    lengths = random.integers(0, TIMES + 1, BATCH)
    lengths[0] = 0
    return (random.integers(1, WORDS, [BATCH, TIMES]) * (np.arange(TIMES) < lengths[:, None])).astype(
        np.int32
    )


def silences(random):
    found = random.normal(size=[BATCH, TIMES, 3]).astype(np.float32)
    found[:, 3:] = 0
    return found


REGULAR = {"kernel_regularizer": "l2", "bias_regularizer": keras.regularizers.L1(0.01)}
CLASSES = {0: 0.3, 2: 2.5}

# For each case: the model, the data of inputs, targets and weights, and the arguments of compile and fit.
CASES = {
    "dense": (
        lambda: chain(keras.Input([3]), layers.Dense(4, "tanh"), layers.Dense(2)),
        [dense(3)],
        [dense(2)],
        [],
        {"loss": "mse", "metrics": ["mae"]},
    ),
    "labels without an axis": (
        lambda: chain(keras.Input([3]), layers.Dense(1, "sigmoid")),
        [dense(3)],
        [sparse(2)],
        [],
        {"loss": "binary_crossentropy", "metrics": ["accuracy"]},
    ),
    "labels with an axis": (
        lambda: chain(keras.Input([3]), layers.Dense(4, "softmax")),
        [dense(3)],
        [sparse(4, 1)],
        [],
        {"loss": "sparse_categorical_crossentropy", "metrics": ["accuracy"]},
    ),
    "labels as numbers": (
        lambda: chain(keras.Input([3]), layers.Dense(4)),
        [dense(3)],
        [floats(4)],
        [],
        {"loss": losses.SparseCategoricalCrossentropy(from_logits=True)},
    ),
    "one-hot labels": (
        lambda: chain(keras.Input([3]), layers.Dense(4, "softmax")),
        [dense(3)],
        [one_hot(4)],
        [],
        {"loss": losses.CategoricalCrossentropy(label_smoothing=0.1), "metrics": ["acc"]},
    ),
    "a loss that is chosen": (
        lambda: chain(keras.Input([3]), layers.Dense(4, "softmax")),
        [dense(3)],
        [sparse(4)],
        [],
        {"loss": "crossentropy"},
    ),
    "sum": (
        lambda: chain(keras.Input([3]), layers.Dense(2)),
        [dense(3)],
        [dense(2)],
        [],
        {"loss": losses.Huber(reduction="sum")},
    ),
    "a function": (
        lambda: chain(keras.Input([3]), layers.Dense(1)),
        [dense(3)],
        [dense()],
        [],
        {"loss": lambda target, output: keras.ops.square(target - output)},
    ),
    "regularizers": (
        lambda: chain(
            keras.Input([3]),
            layers.Dense(4, activity_regularizer="l2", **REGULAR),
            layers.Dense(1, **REGULAR),
        ),
        [dense(3)],
        [dense(1)],
        [],
        {"loss": "mae"},
    ),
    "batch normalization": (
        lambda: chain(
            keras.Input([3]),
            layers.Dense(4),
            layers.BatchNormalization(),
            layers.Dropout(0.0),
            layers.Dense(1),
        ),
        [dense(3)],
        [dense(1)],
        [],
        {"loss": "mse"},
    ),
    "subclassed": (Subclassed, [dense(3)], [dense(1)], [], {"loss": "mse"}),
    "convolution": (
        lambda: chain(
            keras.Input([6, 6, 1]),
            layers.Conv2D(2, 3),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(1),
        ),
        [dense(6, 6, 1)],
        [dense()],
        [],
        {"loss": "mse"},
    ),
    "masked words": (
        lambda: words(layers.Dense(1)),
        [padded],
        [dense(TIMES, 1)],
        [],
        {"loss": "mse", "metrics": ["mae"]},
    ),
    "masked classes": (
        lambda: words(layers.Dense(3, "softmax")),
        [padded],
        [sparse(3, TIMES)],
        [],
        {"loss": "sparse_categorical_crossentropy", "metrics": ["accuracy"]},
    ),
    "masked and summed": (
        lambda: words(layers.Dense(1)),
        [padded],
        [dense(TIMES, 1)],
        [],
        {"loss": losses.MeanSquaredError(reduction="sum")},
    ),
    "LSTM": (lambda: words(layers.LSTM(3), layers.Dense(1)), [padded], [dense(1)], [], {"loss": "mse"}),
    "LSTM over times": (
        lambda: words(layers.LSTM(3, return_sequences=True), layers.Dense(2)),
        [padded],
        [dense(TIMES, 2)],
        [],
        {"loss": "mse"},
    ),
    "Masking": (
        lambda: chain(keras.Input([TIMES, 3]), layers.Masking(), layers.GRU(3, return_sequences=True)),
        [silences],
        [dense(TIMES, 3)],
        [],
        {"loss": "log_cosh"},
    ),
    "attention": (attention, [padded], [dense(TIMES, 1)], [], {"loss": "mse"}),
    "sample weights": (
        lambda: chain(keras.Input([3]), layers.Dense(2)),
        [dense(3)],
        [dense(2)],
        [positive()],
        {"loss": "mse", "metrics": ["mae"], "weighted_metrics": ["mse"]},
    ),
    "weights of times and masks": (
        lambda: words(layers.Dense(1)),
        [padded],
        [dense(TIMES, 1)],
        [positive(TIMES)],
        {"loss": "mse", "weighted_metrics": ["mae"]},
    ),
    "class weights": (
        lambda: chain(keras.Input([3]), layers.Dense(4, "softmax")),
        [dense(3)],
        [sparse(4)],
        [],
        {"loss": "sparse_categorical_crossentropy", "class_weight": CLASSES},
    ),
    "weights of one-hot classes": (
        lambda: chain(keras.Input([3]), layers.Dense(4, "softmax")),
        [dense(3)],
        [one_hot(4)],
        [],
        {"loss": "categorical_crossentropy", "class_weight": CLASSES},
    ),
    "several outputs": (
        twins,
        [dense(3), dense(3)],
        [dense(1), sparse(3)],
        [],
        {
            "loss": ["mse", "sparse_categorical_crossentropy"],
            "loss_weights": [0.5, 2],
            "metrics": [["mae"], ["accuracy"]],
        },
    ),
    "outputs by name": (
        lambda: twins(dict),
        [dense(3), dense(3)],
        [dense(1), sparse(3)],
        [],
        {"loss": {"b": "sparse_categorical_crossentropy", "a": "mse"}, "loss_weights": {"a": 0.3, "b": 1.5}},
    ),
    "an output without a loss": (
        twins,
        [dense(3), dense(3)],
        [dense(1), sparse(3)],
        [],
        {"loss": [None, "sparse_categorical_crossentropy"]},
    ),
    "weights of each output": (
        twins,
        [dense(3), dense(3)],
        [dense(1), sparse(3)],
        [positive(), positive()],
        {"loss": ["mse", "sparse_categorical_crossentropy"]},
    ),
    "one loss for all": (
        lambda: twins(),
        [dense(3), dense(3)],
        [dense(1), dense(3)],
        [positive()],
        {"loss": "mse"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_five_steps(name):
    make, *kinds, options = CASES[name]
    keras.utils.set_random_seed(3)
    model = make()
    model.build([None, 3]) if not model.built else None
    random = np.random.default_rng(7)
    batches = [[[kind(random) for kind in each] for each in kinds] for _ in range(STEPS)]
    ours = trained_by_trainer(model, batches, dict(options))
    theirs = trained_by_keras(model, batches, dict(options))
    assert len(ours) == len(theirs) > 0
    for path, value in theirs.items():
        np.testing.assert_allclose(ours[path], value, rtol=1e-5, atol=1e-6, err_msg=path)


def momentum_of(model):
    # TensorFlow's optimizer does not change rows that a batch does not use; Keras's continues by momentum.
    return 0.0 if any(isinstance(layer, layers.Embedding) for layer in model.layers) else 0.9


def trained_by_trainer(model, batches, options):
    specs = [
        [
            tf.TensorSpec([None, *array.shape[1:]], array.dtype, f"{kind}{place}")
            for place, array in enumerate(group)
        ]
        for kind, group in zip("xyw", batches[0])
    ]
    if isinstance(options["loss"], dict):
        specs[1] = [tf.TensorSpec(spec.shape, spec.dtype, name) for spec, name in zip(specs[1], "ab")]
    own = KerasModel(model, *specs[:2], sample_weights=specs[2])
    class_weight = options.pop("class_weight", None)
    own.compile(lambda: tf.train.MomentumOptimizer(0.05, momentum_of(model)), **options)
    final = FinalVariables()
    points = [[array for group in batch for array in group] for batch in batches]
    config = {"max_epoch": 1, "steps_per_epoch": STEPS, "log_dir": None, "monitors": [], "callbacks": [final]}
    own.fit(points, class_weight=class_weight, **config)
    return {
        name: value
        for name, value in final.values.items()
        if name.startswith("net/") and "omentum" not in name
    }


def trained_by_keras(model, batches, options):
    class_weight = options.pop("class_weight", None)
    model.compile(keras.optimizers.SGD(0.05, momentum=momentum_of(model)), run_eagerly=True, **options)
    for inputs, targets, weights in batches:
        weights = [*weights, *weights] if len(targets) > len(weights) == 1 else weights
        inputs, targets, weights = (
            each[0] if len(each) == 1 else list(each) or None for each in (inputs, targets, weights)
        )
        if isinstance(options["loss"], dict):
            targets = dict(zip("ab", targets))
        model.train_on_batch(inputs, targets, sample_weight=weights, class_weight=class_weight)
    return {
        f"net/{variable.path.removeprefix('net/')}": variable.numpy()
        for variable in model.variables
        if "seed" not in variable.path
    }
