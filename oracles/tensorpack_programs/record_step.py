"""Records the first step of a program, by Tensorpack where it is installed and else by towerpack-compat.

`python record_step.py THEIRS FILE PROGRAM ARGUMENTS` runs the program until its first step, or its first
prediction, and writes FILE. The inputs are those that THEIRS holds, or the program's own if it is FILE.

With CHANGE_WEIGHTS in the environment, it computes the step again with weights that are changed as little as
rounding does, and writes the largest difference of each array, too. With SAVE_WEIGHTS, it saves a checkpoint
in the folder of the log. With CUDA_VISIBLE_DEVICES, the program sees these GPUs, and its ops run on the CPU.
"""

from __future__ import annotations

import importlib.util
import os
import random
import re
import runpy
import sys
import traceback
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

# Seeds of changes of all weights, as small as rounding, after which Tensorpack is compared with itself.
SEEDS = (1, 2, 3)
CHANGE = 1e-6
# Ops whose outputs are fed as the inputs are, such as the one of a dropout.
RANDOM = re.compile(
    "(Stateless|Stateful)?(Random|Uniform|StandardNormal|Truncated|Multinomial)[A-Za-z]*(?<!Counter)(V2)?"
)


def main(theirs: Path, file: Path, command: list[str]) -> None:
    """Runs the program."""
    from compute import prepare

    prepare()
    random.seed(0)
    np.random.seed(0)
    if importlib.util.find_spec("towerpack_compat") is None:
        from tensorpack_host import prepare_tensorpack

        prepare_tensorpack()
    given = dict(np.load(theirs)) if theirs != file else {}
    _Recorder(file, [given[key] for key in sorted(given) if key[0] == "<"]).install()
    sys.argv = command
    sys.path[0] = os.path.dirname(os.path.realpath(command[0]))
    try:
        runpy.run_path(command[0], run_name="__main__")
    except BaseException:
        traceback.print_exc()
    print("it ended before a step or a prediction")
    sys.stdout.flush()
    os._exit(1)


class _Recorder:
    """Records the costs, outputs and gradients of the first tower while the graph is built."""

    def __init__(self, file: Path, given: list[Any]) -> None:
        self.file, self.given = file, given
        self.inputs: list[Any] = []
        self.fetches: dict[str, Any] = {}
        self.predicted: tuple[list[Any], dict[str, Any]] = [], {}
        self.costs = 0

    def install(self) -> None:
        """Puts itself into TensorFlow and into the library."""
        import tensorflow.compat.v1 as tf
        from tensorflow.python.framework import random_seed
        from tensorpack import callbacks
        from tensorpack.predict import FeedfreePredictor, OfflinePredictor
        from tensorpack.predict.base import PredictorBase
        from tensorpack.tfutils.tower import TowerFunc, get_current_tower_context
        from tensorpack.train import Trainer

        recorder = self
        random_seed.get_seed = lambda _seed: (1, 1)  # each random op starts with the same numbers
        first = {
            "towers": TowerFunc.__init__,
            "gradients": tf.train.Optimizer.compute_gradients,
            "train": Trainer.train,
            "predict": PredictorBase.__call__,
        }

        def make_tower(self: Any, function: Any, *rest: Any, **named: Any) -> None:
            recorded = function if isinstance(function, TowerFunc) else recorder.recorded(function)
            first["towers"](self, recorded, *rest, **named)

        def compute_gradients(self: Any, loss: Any, *rest: Any, **named: Any) -> Any:
            pairs = first["gradients"](self, loss, *rest, **named)
            context = get_current_tower_context()
            main = context is None or context.is_main_training_tower
            if main and not re.match("tower[1-9]", loss.op.name):
                recorder.add_gradients(loss, pairs)
            return pairs

        class FirstStep(callbacks.Callback):
            def _before_epoch(self) -> None:
                recorder.run(self.trainer.sess, self.trainer.hooked_sess)

        def train(self: Any, callbacks: Any, *rest: Any, **named: Any) -> None:
            first["train"](self, [*callbacks, FirstStep()], *rest, **named)

        def predict(self: Any, *inputs: Any) -> Any:
            if recorder.inputs and not isinstance(self, OfflinePredictor):
                return first["predict"](self, *inputs)  # beside a training
            inputs = tuple(recorder.given or inputs)
            outputs = first["predict"](self, *inputs)
            recorder.save({f"prediction|{i}": each for i, each in enumerate(outputs)}, list(inputs))
            return None

        def predict_next(self: Any) -> None:
            recorder.inputs, recorder.fetches = recorder.predicted
            with self.graph.as_default():
                recorder.run(self._sess, self._hooked_sess)

        TowerFunc.__init__, Trainer.train, PredictorBase.__call__ = make_tower, train, predict
        FeedfreePredictor.__call__ = predict_next
        tf.train.Optimizer.compute_gradients = compute_gradients

    def recorded(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a tower function that keeps the inputs and outputs of the training towers."""
        import tensorflow.compat.v1 as tf
        from tensorpack.tfutils.tower import get_current_tower_context

        def call(*inputs: Any) -> Any:
            context, graph = get_current_tower_context(), tf.get_default_graph()
            before = len(graph.get_operations())
            result = function(*inputs)
            outputs = {}
            for op in graph.get_operations()[before:]:
                inside = op._get_control_flow_context() is not None
                if op.name.endswith("/output") and not inside and op.outputs[0].dtype.is_floating:
                    outputs[f"output|{op.name.removeprefix(f'{context.ns_name}/')}"] = op.outputs[0]
            if context.is_training:
                self.inputs += inputs
            else:
                self.predicted = list(inputs), outputs
            if context.is_main_training_tower:
                self.fetches |= outputs
            return result

        return call

    def add_gradients(self, cost: Any, pairs: list[Any]) -> None:
        """Keeps a cost and its gradients."""
        import tensorflow.compat.v1 as tf

        self.fetches[f"cost {self.costs}|"] = cost
        for gradient, variable in pairs:
            if gradient is not None:
                name = f"gradients {self.costs}|{variable.op.name}"
                self.fetches[name] = tf.convert_to_tensor(gradient)
        self.costs += 1

    def run(self, session: Any, hooked: Any) -> None:
        """Sets all variables, and computes what is kept."""
        import tensorflow.compat.v1 as tf

        assert self.fetches, "it computes no gradients"
        inputs = [each.deref() for each in dict.fromkeys(each.ref() for each in self.inputs)]
        numbers = random_numbers(list(self.fetches.values()), {each.op for each in inputs})
        if not self.given:
            staged = any(each.op.type == "Unstage" for each in inputs)
            try:
                self.given = (hooked if staged else session).run(inputs)
            except tf.errors.InvalidArgumentError:  # inputs that are fed
                self.given = hooked.run(inputs)
            self.given += session.run(numbers, dict(zip(inputs, self.given)))
        fed = [*inputs, *numbers]
        assert len(fed) == len(self.given), f"{len(self.given)} inputs and random tensors, not {fed}"
        variables = [each for each in tf.global_variables() if each.dtype.is_floating]
        runs = []
        for seed in (0, *SEEDS) if "CHANGE_WEIGHTS" in os.environ else (0,):
            generator = np.random.default_rng(seed)
            values: dict[Any, Any] = {}
            for variable in variables:
                value = drawn(variable.op.name, variable.shape.as_list())
                change = CHANGE * generator.standard_normal(value.shape) if seed else 0.0
                values[variable.initializer.inputs[1].ref()] = (value * (1 + change)).astype("float32")
            assert len(values) == len(variables), "variables share initial values"
            session.run(
                [each.initializer for each in variables],
                {each.deref(): value for each, value in values.items()},
            )
            runs.append(session.run(self.fetches, dict(zip(fed, self.given))))
        spread = {f"~{key}": max(off(runs[0][key], run[key]) for run in runs) for key in runs[0]}
        if "SAVE_WEIGHTS" in os.environ:
            self.save_checkpoint(session)
        self.save(runs[0] | spread, self.given)

    def save_checkpoint(self, session: Any) -> None:
        """Saves the variables as the program would after its first epoch."""
        import tensorflow.compat.v1 as tf
        from tensorpack import logger

        graph = tf.get_default_graph()
        graph._unsafe_unfinalize()
        path = os.path.join(logger.get_logger_dir(), "model")
        tf.train.Saver().save(session, path, write_meta_graph=False)

    def save(self, values: dict[str, Any], inputs: list[Any]) -> None:
        """Writes the file, and ends the process."""
        fed = {f"<{number:03}": each for number, each in enumerate(inputs)}
        np.savez(self.file, **{k.replace("/", "\\"): np.asarray(v) for k, v in (values | fed).items()})
        print("recorded", flush=True)
        os._exit(0)


def random_numbers(fetches: list[Any], until: set[Any]) -> list[Any]:
    """Returns the random tensors that others are computed from, in the order in which they are made."""
    waiting = [each.op for each in fetches]
    seen = set(waiting) | until
    while waiting:
        op = waiting.pop()
        before = [*(each.op for each in op.inputs), *op.control_inputs]
        waiting += set(before) - seen
        seen |= set(before)
    found = [
        op.outputs[0]
        for op in seen - until
        if RANDOM.fullmatch(op.type) and op._get_control_flow_context() is None
    ]
    return sorted(found, key=lambda each: each.op._id)


def drawn(name: str, shape: list[int]) -> Any:
    """Returns the values of a variable: those that scale or divide are about 1, others as small as usual."""
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    if re.search("gamma|variance|stddev|beta1_power|beta2_power", name):
        return generator.uniform(0.5, 1.5, shape).astype("float32")
    scale = 0.1 if len(shape) < 2 else float(np.prod(shape[:-1])) ** -0.5
    return (scale * generator.standard_normal(shape)).astype("float32")


def largest(array: Any) -> float:
    """Returns the largest finite magnitude."""
    return float(np.max(np.abs(array), initial=0, where=np.isfinite(array)))


def off(a: Any, b: Any) -> float:
    """Returns the largest difference, relative to the largest element of the first array."""
    if np.shape(a) != np.shape(b) or not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return float("inf")
    return largest(np.subtract(a, b, dtype="float64")) / max(largest(a), 1e-6)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
