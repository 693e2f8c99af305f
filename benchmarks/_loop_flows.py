"""The tiny MLP of benchmarks/loop.py on shuffled batches of arrays, trained by this project and by its peers.

Each subject reads every example once per epoch, in a new order, and returns the microseconds of a step: of
the clock, and of the processor.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from statistics import median

import _rounds
import numpy as np
from _screen import on_screen

BATCH, EPOCHS = 32, 4
STEPS = _rounds.shorter(10_000, 200)
EXAMPLES, INPUTS, HIDDEN, CLASSES = 1797, 64, 32, 10
RATE = 1e-3

# Microseconds of a step: of the clock, and of the processor.
Times = tuple[float, float]

RESIDENT, FLOW, MAPPED = "trainer, a batch in the graph", "trainer, flow over arrays", "trainer, mapped list"
COMPILED = "trainer, flow over arrays, xla, 200 steps a call"
BARE_MAPPED = "the mapped list alone"
EVALUATED, PREDICTED = "InferenceRunner, flow over arrays", "SimpleDatasetPredictor, flow over arrays"
FORWARD = "the forward pass, a batch in the graph"
JAX, JAX_SCAN = "JAX, a jitted step, NumPy batches", "JAX, an epoch in lax.scan"
TORCH = "PyTorch, fused Adam"
KERAS = "Keras evaluate, tf.data, 1000 steps a call"


def examples() -> tuple[np.ndarray, np.ndarray]:
    """As many images and labels as the digits have."""
    draw = np.random.default_rng(0)
    images = draw.normal(size=(EXAMPLES, INPUTS)).astype(np.float32)
    return images, draw.integers(0, CLASSES, EXAMPLES).astype(np.int32)


def batches(images: np.ndarray, labels: np.ndarray) -> Iterator[list[np.ndarray]]:
    """Shuffled batches without end, gathered with NumPy: what peers are fed."""
    draw = np.random.default_rng(1)
    while True:
        order = draw.permutation(len(images))
        for start in range(0, len(images) - BATCH + 1, BATCH):
            chosen = order[start : start + BATCH]
            yield [images[chosen], labels[chosen]]


def timed(epoch: Callable[[], object], steps: int = STEPS) -> Times:
    """Runs epochs; the first one, in which functions are compiled, does not count."""
    walls, cpus = [], []
    for _ in range(EPOCHS):
        wall, cpu = time.perf_counter(), time.process_time()
        epoch()
        walls.append(1e6 * (time.perf_counter() - wall) / steps)
        cpus.append(1e6 * (time.process_time() - cpu) / steps)
    return median(walls[1:]), median(cpus[1:])


def flow_over_arrays():
    """The flow of a user with arrays."""
    from towerpack_dataflow import BatchData, DataFromArrays

    return BatchData(DataFromArrays(list(examples()), shuffle=True), BATCH)


def mapped_list():
    """The flow of a user with a list and a function."""
    from towerpack_dataflow import BatchData, DataFromList, MapData

    points = DataFromList([[image, label] for image, label in zip(*examples())], shuffle=True)
    return BatchData(MapData(points, lambda point: [2 * point[0], point[1]]), BATCH)


def our_flows() -> dict[str, Callable[[], Times]]:
    """`SimpleTrainer` with a resident batch and with flows, and a flow alone."""
    import tensorflow.compat.v1 as tf
    from loop import mlp_cost, mlp_inputs
    from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

    from towerpack_callbacks import Callback, CallbackFactory, InferenceRunner, ScalarStats
    from towerpack_dataflow import BatchData, DataFromArrays
    from towerpack_inputsource import TensorInput, fast_callable
    from towerpack_trainers import ModelDesc, SimpleTrainer, TrainConfig, default_session_config
    from towerpack_trainers.predict import PredictConfig, SimpleDatasetPredictor

    class MLP(ModelDesc):
        def inputs(self):
            return [
                tf.TensorSpec([BATCH, INPUTS], tf.float32, "x"),
                tf.TensorSpec([BATCH], tf.int32, "y"),
            ]

        def build_graph(self, x, y):
            return mlp_cost(tf, x, y)

        def optimizer(self):
            return tf.train.AdamOptimizer(RATE)

    class Watch(Callback):
        def __init__(self) -> None:
            self.seconds: list[tuple[float, float]] = []

        def begin(self, _: object = None) -> None:
            self._begin = time.perf_counter(), time.process_time()

        def end(self, _: object = None) -> None:
            wall, cpu = self._begin
            self.seconds.append((time.perf_counter() - wall, time.process_time() - cpu))

        _before_epoch, _after_epoch = begin, end

    def training(watch=None, callbacks=None, steps: int = STEPS, **options) -> Times:
        watch = watch or Watch()
        with tempfile.TemporaryDirectory() as log_dir, on_screen():
            config = TrainConfig(
                model=MLP(),
                callbacks=callbacks or [watch],
                extra_callbacks=[],
                monitors=[],
                steps_per_epoch=steps,
                max_epoch=EPOCHS,
                log_dir=log_dir,
                **options,
            )
            SimpleTrainer(config).train()
        walls, cpus = zip(*watch.seconds[1:])
        return 1e6 * median(walls) / STEPS, 1e6 * median(cpus) / STEPS

    def alone() -> Times:
        flow = mapped_list()
        steps = len(flow) * max(1, STEPS // len(flow) // 10)
        return timed(lambda: [None for _ in range(steps // len(flow)) for _ in flow], steps)

    def whole_pass():
        """A flow with a batch for each step."""
        images, labels = (np.resize(each, (STEPS * BATCH, *each.shape[1:])) for each in examples())
        return BatchData(DataFromArrays([images, labels], shuffle=False), BATCH)

    def evaluated() -> Times:
        watch = Watch()
        begin, end = CallbackFactory(trigger=watch.begin), CallbackFactory(trigger=watch.end)
        runner = InferenceRunner(whole_pass(), ScalarStats("cost"))
        return training(watch, [begin, runner, end], steps=1, data=TensorInput(lambda: mlp_inputs(tf)))

    def predicted() -> Times:
        config = PredictConfig(
            tower_func=lambda x, y: mlp_cost(tf, x, y), input_signature=MLP().inputs(), output_names=["cost"]
        )
        with SimpleDatasetPredictor(config, whole_pass()) as predictor:
            return timed(lambda: sum(1 for _ in predictor.get_result()))

    def forward() -> Times:
        with tf.Graph().as_default(), tf.variable_scope("", use_resource=True):
            cost = mlp_cost(tf, *mlp_inputs(tf))
            config = default_session_config()
            config.graph_options.rewrite_options.remapping = RewriterConfig.OFF  # as trainers do
            with tf.Session(config=config) as session:
                session.run(tf.global_variables_initializer())
                # The fastest way for a small network: in the calling thread, with products apart from biases.
                options = tf.RunOptions(inter_op_thread_pool=-1)
                call = fast_callable(session, fetches=[cost], options=options)
                return timed(lambda: [call() for _ in range(STEPS)])

    return {
        RESIDENT: lambda: training(data=TensorInput(lambda: mlp_inputs(tf))),
        FLOW: lambda: training(dataflow=flow_over_arrays()),
        COMPILED: lambda: training(dataflow=flow_over_arrays(), xla=True, steps_per_run=200),
        MAPPED: lambda: training(dataflow=mapped_list()),
        BARE_MAPPED: alone,
        EVALUATED: evaluated,
        PREDICTED: predicted,
        FORWARD: forward,
    }


def jax_loops() -> dict[str, Callable[[], Times]]:
    """JAX on the processor."""
    import jax
    import jax.numpy as jnp
    from _jax_adam import begin, epoch_in_scan, updated

    shapes = (INPUTS, HIDDEN), (HIDDEN,), (HIDDEN, CLASSES), (CLASSES,)

    def cost(values, x, y):
        w0, b0, w1, b1 = values
        logits = jax.nn.relu(x @ w0 + b0) @ w1 + b1
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1))

    def step(state, batch):
        return updated(state, jax.grad(cost)(state[0], *batch))

    def single() -> Times:
        call = jax.jit(lambda state, *batch: step(state, batch), donate_argnums=0)
        state, data = begin(shapes), batches(*examples())

        def epoch() -> None:
            nonlocal state
            for _ in range(STEPS):
                state = call(state, *next(data))
            jax.block_until_ready(state)

        return timed(epoch)

    def scanned() -> Times:
        whole, state = epoch_in_scan(step, *examples(), BATCH), begin(shapes)
        calls = EXAMPLES // BATCH
        passes = max(1, STEPS // calls)

        def epoch() -> None:
            nonlocal state
            for _ in range(passes):
                state = whole(state)
            jax.block_until_ready(state)

        return timed(epoch, passes * calls)

    return {JAX: single, JAX_SCAN: scanned}


def torch_loops() -> dict[str, Callable[[], Times]]:
    """PyTorch in its fastest way without a compiler, on one thread."""
    import torch

    torch.set_num_threads(1)

    def fused() -> Times:
        model = torch.nn.Sequential(
            torch.nn.Linear(INPUTS, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, CLASSES)
        )
        optimizer = torch.optim.Adam(model.parameters(), RATE, fused=True)
        data = batches(*examples())

        def epoch() -> None:
            for _ in range(STEPS):
                x, y = map(torch.from_numpy, next(data))
                optimizer.zero_grad(set_to_none=True)
                torch.nn.functional.cross_entropy(model(x), y.long()).backward()
                optimizer.step()

        return timed(epoch)

    return {TORCH: fused}
