"""Callbacks run, the model does not change."""

import numpy as np

from towerpack_callbacks import InferenceRunner, ModelSaver, ScalarStats, StepFetch
from towerpack_inputsource import QueueInput
from towerpack_trainers import NoOpTrainer, SimpleTrainer, SmartInit


def test_callbacks_run_and_nothing_is_trained(configure, kit):
    recorder, weights = kit.Recorder(), kit.Weights()
    source = QueueInput(kit.net_flow())
    NoOpTrainer(
        configure(model=kit.Net(), data=source, callbacks=[recorder, weights], steps_per_epoch=3)
    ).train()
    assert [what for what, *_ in recorder.calls].count("trigger_step") == 6
    assert weights.values["global_step"] == 6
    assert not weights.values["fc1/b"].any()
    assert source.state_dict()["flow"]["index"] == 0


def test_a_callback_may_still_take_datapoints(configure, kit):
    class Look(kit.Recorder):
        def step_fetches(self):
            return [StepFetch(self.trainer.get_tensors(["cost"])[0], lambda cost: self.calls.append(cost))]

    look, source = Look(), QueueInput(kit.net_flow())
    NoOpTrainer(
        configure(model=kit.Net(), data=source, callbacks=[look], steps_per_epoch=2, max_epoch=1)
    ).train()
    assert len([call for call in look.calls if isinstance(call, np.float32)]) == 2
    assert source.state_dict()["flow"]["index"] == 2


def test_a_trained_model_is_evaluated(configure, kit, tmp_path):
    def statistics(trainer, **changes):
        evaluate = InferenceRunner(kit.net_flow(), [ScalarStats("accuracy")])
        made = trainer(
            configure(
                model=kit.Net(),
                dataflow=kit.net_flow(),
                callbacks=[evaluate, *changes.pop("more", [])],
                **changes,
            )
        )
        made.train()
        return made.monitors.get_latest("validation_accuracy")

    trained = statistics(SimpleTrainer, more=[ModelSaver()], max_epoch=5, log_dir=tmp_path / "trained")
    again = statistics(
        NoOpTrainer,
        session_init=SmartInit(tmp_path / "trained"),
        steps_per_epoch=1,
        max_epoch=1,
        log_dir=tmp_path / "evaluated",
    )
    assert trained == again > 0.5
