"""A step's traces name the datapoints of that step."""

import numpy as np
import pytest

from towerpack_callbacks import Callback, StepFetch
from towerpack_dataflow import BatchData, DataFromGenerator, DataFromList
from towerpack_inputsource import QueueInput
from towerpack_trainers import ConfigError, SimpleTrainer, SyncMultiGPUTrainerReplicated, TrainConfig


class Images(Callback):
    """Records the datapoints of the steps."""

    def __init__(self):
        self.seen = []

    def _setup_graph(self):
        self._tensors = [tower.inputs["image"] for tower in self.trainer.tower_func.training]

    def step_fetches(self):
        return [StepFetch(self._tensors, self._receive)]

    def _receive(self, images):
        self.seen.append(sorted(np.concatenate(images)[:, 0].tolist()))


def numbered(size=20, batch=4):
    """A flow of images that contain the numbers of the examples."""
    return BatchData(DataFromList([[np.full(4, number, np.float32), 0] for number in range(size)]), batch)


def config(kit, tmp_path, flow, *callbacks):
    return TrainConfig(
        model=kit.Net(),
        dataflow=flow,
        callbacks=[*callbacks],
        extra_callbacks=[],
        monitors=[],
        max_epoch=2,
        steps_per_epoch=4,
        seed=3,
        log_dir=tmp_path / "log",
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "make", [SimpleTrainer, lambda config: SyncMultiGPUTrainerReplicated(config, ["/cpu:0", "/cpu:1"])]
)
def test_each_step_is_explained(make, kit, tmp_path):
    images = Images()
    trainer = make(config(kit, tmp_path, numbered(), images))
    trainer.train()
    assert len(images.seen) == 8
    for step, seen in enumerate(images.seen, 1):
        traces = trainer.explain_step(step)
        assert sorted(leaf.notes["member"] for trace in traces for leaf in trace.sources()) == seen


@pytest.mark.slow
def test_steps_that_cannot_be_explained(kit, tmp_path):
    trainer = SimpleTrainer(config(kit, tmp_path, numbered()))
    with pytest.raises(ConfigError, match="A step is an integer of at least 1; received 0"):
        trainer.explain_step(0)
    stream = BatchData(DataFromGenerator(lambda: iter([[np.zeros(4, np.float32), 1]] * 8)), 4)
    with pytest.raises(TypeError):
        SimpleTrainer(config(kit, tmp_path / "stream", stream)).explain_step(1)
    plain = list(numbered())
    with pytest.raises(ConfigError, match=r"received list\. Write DataFromList\(list\)\."):
        SimpleTrainer(config(kit, tmp_path / "list", plain)).explain_step(1)
    source = TrainConfig(
        model=kit.Net(),
        data=QueueInput(numbered()),
        max_epoch=1,
        extra_callbacks=[],
        monitors=[],
        log_dir=tmp_path / "source",
    )
    with pytest.raises(ConfigError, match=r"TrainConfig\(dataflow=\.\.\.\) with a flow that has trace"):
        SimpleTrainer(source).explain_step(1)
