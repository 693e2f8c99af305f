"""Every trainer with every supported input source; the others are refused."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_inputsource import (
    BatchQueueInput,
    DummyConstantInput,
    FeedInput,
    PlaceholderInput,
    QueueInput,
    StagingInput,
    TensorInput,
    TFDatasetInput,
    remap_input_source,
)
from towerpack_trainers import (
    AsyncMultiGPUTrainer,
    ConfigError,
    QueueInputTrainer,
    SimpleTrainer,
    SyncMultiGPUTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
)

TWO = ["/cpu:0", "/cpu:1"]

ONE_TOWER = {"simple": SimpleTrainer, "queue": QueueInputTrainer}
TWO_TOWERS = {
    "sync": lambda config: SyncMultiGPUTrainer(config, TWO),
    "parameter server": lambda config: SyncMultiGPUTrainerParameterServer(config, devices=TWO),
    "replicated": lambda config: SyncMultiGPUTrainerReplicated(config, devices=TWO),
    "async": lambda config: AsyncMultiGPUTrainer(config, devices=TWO),
}


def tensors():
    x = tf.random.normal([4])
    return [x, 3 * x]


def dataset(kit):
    return tf.data.Dataset.from_tensor_slices(tuple(np.stack(column) for column in zip(*kit.line_data(20))))


FREE = {
    "queue": lambda kit: QueueInput(kit.line_data(20)),
    "batch queue": lambda kit: BatchQueueInput(
        [list(pair) for d in kit.line_data(20) for pair in zip(*d)], 4
    ),
    "tf.data": lambda kit: TFDatasetInput(lambda: dataset(kit)),
    "tensors": lambda kit: TensorInput(tensors, 20),
    "staging": lambda kit: StagingInput(QueueInput(kit.line_data(20))),
    "staging tensors": lambda kit: StagingInput(TensorInput(tensors, 20)),
    "remapped": lambda kit: remap_input_source(QueueInput([d[::-1] for d in kit.line_data(20)]), ["y", "x"]),
}
FED = {
    "feed": lambda kit: FeedInput(kit.line_data(20)),
    "remapped feed": lambda kit: remap_input_source(
        FeedInput([d[::-1] for d in kit.line_data(20)]), ["y", "x"]
    ),
}


@pytest.mark.parametrize("source", [*FREE, *FED])
@pytest.mark.parametrize("trainer", [*ONE_TOWER, *TWO_TOWERS])
def test_every_trainer_with_every_source(kit, configure, trainer, source):
    config = configure(
        data={**FREE, **FED}[source](kit),
        callbacks=[kept := kit.Weights()],
        steps_per_epoch=60,
        max_epoch=1,
        log_dir=None,
    )
    make = {**ONE_TOWER, **TWO_TOWERS}[trainer]
    if source in FED and trainer in TWO_TOWERS:
        with pytest.raises(ConfigError, match=r"feeds one datapoint in each run, so all 2 towers"):
            make(config)
        return
    make(config).train()
    assert kept.values["slope"] == pytest.approx(3, abs=0.05)


@pytest.mark.parametrize("trainer", TWO_TOWERS)
def test_placeholders_do_not_feed_several_towers(configure, trainer):
    with pytest.raises(ConfigError, match="PlaceholderInput feeds one datapoint in each run"):
        TWO_TOWERS[trainer](configure(data=PlaceholderInput(), steps_per_epoch=1))


@pytest.mark.parametrize("trainer", TWO_TOWERS)
def test_constants_serve_all_towers(kit, configure, trainer):
    source = DummyConstantInput([[4], [4]])
    built = TWO_TOWERS[trainer](configure(data=source, steps_per_epoch=5, max_epoch=1))
    built.train()
    assert built.loop.global_step == 5


@pytest.mark.parametrize("trainer", TWO_TOWERS)
def test_each_tower_gets_different_datapoints(kit, configure, trainer):
    """In two steps of two towers, four datapoints are used, each once."""

    class Sums(kit.Line):
        def build_graph(self, x, y):
            total = tf.get_variable("total", [], initializer=tf.zeros_initializer())
            return total * tf.reduce_sum(x)

        def optimizer(self):
            return tf.train.GradientDescentOptimizer(-1.0, use_locking=True)

    data = [[np.float32([10**k]), np.float32([0])] for k in range(6)]
    config = configure(
        model=Sums(), dataflow=data, callbacks=[kept := kit.Weights()], steps_per_epoch=2, max_epoch=1
    )
    TWO_TOWERS[trainer](config).train()
    assert kept.values["total"] == pytest.approx(1111 / 2)
