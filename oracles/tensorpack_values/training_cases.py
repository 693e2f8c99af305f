"""Trainings with fixed weights and inputs: costs, variables, statistics, files, calls of callbacks."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from cases import add, case, drawn
from tensorpack import (
    AutoResumeTrainConfig,
    BatchData,
    BatchNorm,
    BinaryClassificationStats,
    ClassificationError,
    Conv2D,
    DataFromList,
    FullyConnected,
    HumanHyperParamSetter,
    HyperParamSetterWithFunc,
    InferenceRunner,
    MaxSaver,
    MinSaver,
    ModelDesc,
    ModelSaver,
    ObjAttrParam,
    PeriodicCallback,
    PeriodicTrigger,
    QueueInput,
    RunOp,
    SaverRestore,
    ScalarStats,
    ScheduledHyperParamSetter,
    SimpleTrainer,
    StatMonitorParamSetter,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
    TrainConfig,
    l2_regularizer,
    launch_train_with_config,
    logger,
    regularize_cost,
)
from tensorpack.callbacks import (
    Callback,
    EnableCallbackIf,
    JSONWriter,
    MergeAllSummaries,
    MovingAverageSummary,
    ProcessTensors,
    SimpleMovingAverage,
)
from tensorpack.tfutils import gradproc, optimizer
from tensorpack.tfutils.sessinit import ChainInit, SessionInit
from tensorpack.tfutils.summary import add_activation_summary, add_moving_summary, add_param_summary

train = tf.train
STEPS = 10
POINTS = [[drawn(f"point{n}", (4, 4, 2)), n % 3, int(n % 3 == 0)] for n in range(24)]


class Model(ModelDesc):
    """A convolution, a batch normalization and a classification."""

    def __init__(
        self, make: Callable[[Any], Any] = train.GradientDescentOptimizer, norm: bool = True
    ) -> None:
        self.make, self.norm = make, norm

    def inputs(self) -> Any:
        return [
            tf.TensorSpec([None, 4, 4, 2], tf.float32, "image"),
            tf.TensorSpec([None], tf.int32, "label"),
            tf.TensorSpec([None], tf.int32, "first"),
        ]

    def build_graph(self, image: Any, label: Any, first: Any) -> Any:
        x = Conv2D("conv", image, 3, 3)
        x = tf.nn.relu(BatchNorm("bn", x, momentum=0.8) if self.norm else x)
        logits = FullyConnected("fc", x, 3)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
        loss = tf.reduce_mean(losses, name="loss")
        guess = tf.argmax(logits, 1, output_type=tf.int32)
        wrong = tf.cast(tf.not_equal(guess, label), tf.float32, name="wrong")
        tf.cast(tf.equal(guess, 0), tf.int32, name="guess")
        tf.identity(first, name="is_first")
        # Tensorpack may read a weight for the penalty after its update, so only the loss is recorded.
        cost = tf.add(loss, regularize_cost(".*/W", l2_regularizer(0.01)), name="cost")
        add_moving_summary(loss, tf.reduce_mean(wrong, name="error"))
        add_param_summary((".*/W", ["rms", "mean"]))
        add_activation_summary(x, ["sparsity", "rms"])
        tf.summary.scalar("logit", logits[0, 0])
        return cost

    def optimizer(self) -> Any:
        rate = tf.get_variable("learning_rate", initializer=0.2, trainable=False)
        tf.summary.scalar("learning_rate-summary", rate)
        return self.make(rate)


class Costs(Callback):
    """Records the cost of each step."""

    def __init__(self) -> None:
        self.costs: list[Any] = []

    def _setup_graph(self) -> None:
        self.fetches = self.get_tensors_maybe_in_tower(["loss:0"])

    def _before_run(self, _: Any) -> Any:
        return self.fetches

    def _after_run(self, _: Any, values: Any) -> None:
        self.costs.append(values.results[0])


class Weights(SessionInit):
    """Gives all variables of the model values that depend on their names alone."""

    def _run_init(self, sess: tf.Session) -> None:
        for variable in tf.trainable_variables():
            variable.load(drawn(variable.op.name, variable.shape.as_list()), sess)


def flow(number: int = len(POINTS)) -> Any:
    return BatchData(DataFromList(POINTS[:number], shuffle=False), 4, remainder=True)


def folder(name: str) -> str:
    return os.path.join(os.environ["VALUES_FOLDER"], "trainings", name)


def trained(
    name: str,
    model: Any = None,
    callbacks: Any = (),
    trainer: Callable[[], Any] = SimpleTrainer,
    kind: Any = TrainConfig,
    clean: bool = True,
    **options: Any,
) -> dict[str, Any]:
    """Trains, and returns the costs, the variables, the statistics and the names of the files."""
    place = folder(name)
    logger.set_logger_dir(place, action="d" if clean else "k")
    costs = Costs()
    with tf.Graph().as_default():
        settings = {"steps_per_epoch": STEPS, "max_epoch": 1, "session_init": Weights(), **options}
        settings = {"dataflow": flow(), **settings} if "data" not in settings else settings
        config = kind(
            model=model or Model(), callbacks=[*callbacks, costs], monitors=[JSONWriter()], **settings
        )
        made = trainer()
        # Without it, Tensorpack updates variables that other gradients are still to be computed from.
        made.GATE_GRADIENTS = train.Optimizer.GATE_GRAPH
        launch_train_with_config(config, made)
    with open(os.path.join(place, "stats.json")) as file:
        statistics = json.load(file)
    return {
        "costs": costs.costs,
        "statistics": statistics,
        "files": sorted(
            each for each in os.listdir(place) if not each.startswith(("log.", "events", "graph-"))
        ),
    }


class Final(Callback):
    """Keeps the values of all variables at the end."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def _after_train(self) -> None:
        self.values = self.trainer.sess.run({each.op.name: each for each in tf.global_variables()})


def with_variables(name: str, *callbacks: Any, **options: Any) -> dict[str, Any]:
    final = Final()
    found = trained(name, callbacks=[*callbacks, final], **options)
    return {**found, "variables": final.values}


def processed(*processors: Any) -> Callable[[Any], Any]:
    return lambda rate: optimizer.apply_grad_processors(train.MomentumOptimizer(rate, 0.9), list(processors))


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "descent": train.GradientDescentOptimizer,
    "momentum": lambda rate: train.MomentumOptimizer(rate, 0.9),
    "nesterov": lambda rate: train.MomentumOptimizer(rate, 0.9, use_nesterov=True),
    "adam": lambda rate: train.AdamOptimizer(rate * 0.1, epsilon=1e-3),
    "rms": lambda rate: train.RMSPropOptimizer(rate * 0.1, momentum=0.5),
    "adagrad": train.AdagradOptimizer,
    "accumulated": lambda rate: optimizer.AccumGradOptimizer(train.MomentumOptimizer(rate, 0.9), 3),
    "accumulated_adam": lambda rate: optimizer.AccumGradOptimizer(train.AdamOptimizer(rate * 0.1), 4),
    "clipped": processed(gradproc.GlobalNormClip(0.1)),
    "scaled": processed(gradproc.ScaleGradient([("conv/.*", 2.0), (".*/b", 0)]), gradproc.SummaryGradient()),
    "mapped": processed(
        gradproc.MapGradient(lambda g: tf.clip_by_value(g, -0.01, 0.01), "fc/W"),
        gradproc.MapGradient(lambda g, v: g + 0.1 * v, "conv/W"),
        gradproc.CheckGradient(),
    ),
    "filtered": processed(
        gradproc.MapGradient(lambda g: None, "fc/b"), gradproc.FilterNoneGrad(), gradproc.GlobalNormClip(1.0)
    ),
    "assigned": lambda rate: optimizer.VariableAssignmentOptimizer(
        train.GradientDescentOptimizer(rate),
        lambda v: tf.clip_by_value(v, -0.1, 0.1) if v.op.name.endswith("W") else None,
    ),
    "afterwards": lambda rate: optimizer.PostProcessOptimizer(
        train.MomentumOptimizer(rate, 0.9),
        lambda v: tf.assign(v, v * 0.5).op if v.op.name == "conv/b" else None,
    ),
}
for each, make in OPTIMIZERS.items():
    add(f"training/optimizer_{each}", lambda each=each, make=make: with_variables(each, model=Model(make)))


TRAINERS: dict[str, Callable[[], Any]] = {
    "server_cpu": lambda: SyncMultiGPUTrainerParameterServer(2, ps_device="cpu"),
    "server_gpu": lambda: SyncMultiGPUTrainerParameterServer([0, 1], ps_device="gpu"),
    "replicated": lambda: SyncMultiGPUTrainerReplicated(2, mode="cpu"),
    "replicated_sum": lambda: SyncMultiGPUTrainerReplicated(2, average=False, mode="cpu"),
}


def of_towers(name: str, make: Callable[[], Any]) -> Any:
    """Without costs and statistics of single towers, whose shares of the data are not fixed."""
    model = Model(OPTIMIZERS["momentum"], norm=False)
    return with_variables(name, model=model, trainer=make, data=QueueInput(flow()))["variables"]


for each, towers in TRAINERS.items():
    add(f"training/trainer_{each}", lambda each=each, towers=towers: of_towers(each, towers))


class Rates(Callback):
    """Records the learning rate of each step, and after each epoch."""

    def __init__(self) -> None:
        self.rates: list[Any] = []

    def _setup_graph(self) -> None:
        self.rate = next(each for each in tf.global_variables() if each.op.name == "learning_rate")

    def _trigger_step(self) -> None:
        self.rates.append(self.trainer.sess.run(self.rate))

    def _trigger_epoch(self) -> None:
        self.rates.append(self.trainer.sess.run(self.rate))


def rates(name: str, *setters: Any, **options: Any) -> Any:
    seen = Rates()
    found = trained(name, callbacks=[*setters, seen], steps_per_epoch=3, max_epoch=6, **options)
    return {**found, "rates": seen.rates}


@case
def scheduled() -> Any:
    points = [(0, 0.1), (2, 0.05), (5, 0.01)]
    return [
        rates("scheduled", ScheduledHyperParamSetter("learning_rate", points)),
        rates("linear", ScheduledHyperParamSetter("learning_rate", points, interp="linear")),
        rates("late", ScheduledHyperParamSetter("learning_rate:0", points[:2]), starting_epoch=4),
    ]


@case
def scheduled_by_steps() -> Any:
    points = [(2, 0.1), (7, 0.02), (12, 0.3)]
    return [
        rates("steps", ScheduledHyperParamSetter("learning_rate", points, step_based=True)),
        rates("line", ScheduledHyperParamSetter("learning_rate", points, "linear", step_based=True)),
    ]


@case
def set_by_functions() -> Any:
    class Held:
        number = 3.0

    held = Held()
    found = rates(
        "functions",
        HyperParamSetterWithFunc("learning_rate", lambda epoch, old: old * 0.5 + epoch * 0.01),
        HyperParamSetterWithFunc(ObjAttrParam(held, "number"), lambda epoch, old: old + epoch),
    )
    return found, held.number


@case
def set_by_statistics() -> Any:
    setter = StatMonitorParamSetter("learning_rate", "loss", lambda x: x * 0.1, threshold=10.0, last_k=2)
    upwards = StatMonitorParamSetter("learning_rate", "loss", lambda x: x + 1, 0.0, last_k=3, reverse=True)
    return [
        rates(name, InferenceRunner(flow(), ScalarStats("loss", prefix="")), each)
        for name, each in (("statistics", setter), ("upwards", upwards))
    ]


@case
def set_by_hand() -> Any:
    place = folder("hand")
    logger.set_logger_dir(place, action="d")
    setter = HumanHyperParamSetter("learning_rate")

    class Writes(Callback):
        def _trigger_epoch(self) -> None:
            with open(os.path.join(place, "hyper.txt"), "w") as file:
                file.write(f"other:1\nlearning_rate:{0.1 * self.epoch_num}\n")

    return rates("hand", Writes(), setter, clean=False)


def inferencers() -> list[Any]:
    return [
        ScalarStats(["cost", "error"]),
        ScalarStats("error", prefix="test"),
        ClassificationError("wrong", "validation-error"),
        BinaryClassificationStats("guess", "is_first"),
    ]


@case
def inference() -> Any:
    class Own(Callback):
        def _trigger(self) -> None:
            history = self.trainer.monitors.get_history("validation-error")
            self.trainer.monitors.put_scalar("own", len(history) + self.trainer.monitors.get_latest("loss"))

    # 22 points: the last batch is smaller.
    return with_variables(
        "inference", InferenceRunner(flow(22), inferencers()), Own(), steps_per_epoch=4, max_epoch=3
    )


@case
def statistics() -> Any:
    class Scalars(Callback):
        def _trigger_step(self) -> None:
            self.trainer.monitors.put_scalar("step", self.local_step + 10 * self.global_step)

    return trained(
        "summaries",
        callbacks=[Scalars(), SimpleMovingAverage(["loss", "error"], 4)],
        steps_per_epoch=5,
        max_epoch=3,
    )


@case
def summaries_of_steps() -> Any:
    return trained(
        "periods",
        extra_callbacks=[MovingAverageSummary(), MergeAllSummaries(period=2)],
        steps_per_epoch=5,
        max_epoch=2,
    )


@case
def savers() -> Any:
    place = folder("savers")
    saver = PeriodicTrigger(ModelSaver(max_to_keep=2, checkpoint_dir=place), every_k_steps=3)
    inference = InferenceRunner(flow(), inferencers())
    named = MaxSaver("validation_error", filename="best", checkpoint_dir=place)
    return trained(
        "savers",
        callbacks=[saver, inference, MinSaver("validation_cost", checkpoint_dir=place), named],
        steps_per_epoch=4,
        max_epoch=3,
    )


@case
def resumed() -> Any:
    def adam(name: str, *callbacks: Any, **options: Any) -> Any:
        model = Model(OPTIMIZERS["adam"])
        return with_variables(name, *callbacks, model=model, steps_per_epoch=4, **options)

    saver = ModelSaver(checkpoint_dir=folder("resumed"))
    first = adam("resumed", saver, max_epoch=2)
    checkpoint = os.path.join(folder("resumed"), "checkpoint")
    again = adam("again", max_epoch=4, session_init=SaverRestore(checkpoint), starting_epoch=3)
    some = SaverRestore(checkpoint, ignore=["fc/W:0", "fc/W/Adam"])
    partial = adam("partial", max_epoch=1, session_init=ChainInit([Weights(), some]))
    saver = ModelSaver(checkpoint_dir=folder("resumed"))
    found = adam("resumed", saver, kind=AutoResumeTrainConfig, max_epoch=3, clean=False)
    return first, again, partial, found


class Order(Callback):
    """Records its calls with the counters of the loop."""

    _chief_only = False

    def __init__(self, name: str, calls: list[str]) -> None:
        self.name, self.calls = name, calls

    def note(self, what: str) -> None:
        self.calls.append(f"{self.name} {what} {self.epoch_num} {self.local_step} {self.global_step}")

    def _setup_graph(self) -> None:
        self.calls.append(f"{self.name} setup")

    def _before_train(self) -> None:
        self.note("before_train")

    def _before_epoch(self) -> None:
        self.note("before_epoch")

    def _before_run(self, _: Any) -> Any:
        self.note("before_run")
        return ["learning_rate:0"] if self.name == "a" else None

    def _after_run(self, _: Any, values: Any) -> None:
        self.note(f"after_run {[float(each) for each in values.results or ()]}")

    def _trigger_step(self) -> None:
        self.note("trigger_step")

    def _after_epoch(self) -> None:
        self.note("after_epoch")

    def _trigger_epoch(self) -> None:
        self.note("trigger_epoch")

    def _after_train(self) -> None:
        self.note("after_train")


class Triggered(Order):
    """Records its triggers, which each epoch causes by default."""

    def _trigger(self) -> None:
        self.note("trigger")

    def _trigger_epoch(self) -> None:
        Callback._trigger_epoch(self)


@case
def order() -> Any:
    calls: list[str] = []
    wrapped = [
        PeriodicTrigger(Triggered("steps", calls), every_k_steps=2, every_k_epochs=2, before_train=True),
        PeriodicCallback(Triggered("some", calls), every_k_epochs=2),
        EnableCallbackIf(Triggered("if", calls), lambda self: self.local_step == 1),
    ]
    callbacks = [Order("a", calls), *wrapped, Triggered("b", calls)]
    trained("order", callbacks=callbacks, steps_per_epoch=3, max_epoch=6, starting_epoch=4)
    return calls


@case
def operations() -> Any:
    def counting(name: str, **options: Any) -> Any:
        def make() -> Any:
            return tf.assign_add(tf.get_variable(name, initializer=0, trainable=False), 1).op

        return RunOp(make, **options)

    seen: list[Any] = []
    return with_variables(
        "operations",
        counting("before"),
        counting("triggers", run_before=False),
        counting("steps", run_before=False, run_as_trigger=False, run_step=True),
        counting("all", run_step=True),
        ProcessTensors(["loss:0", "error:0"], lambda loss, error: seen.append((loss, error))),
        steps_per_epoch=3,
        max_epoch=2,
    ), seen
