"""`interop.torch.DataLoader` in Lightning, Accelerate, the Trainer of Hugging Face and Ignite."""

import json

import pytest
import torch

from towerpack_dataflow import BatchData, DataFromList
from towerpack_dataflow.interop.torch import DataLoader

STEPS = 10  # of an epoch
pytestmark = pytest.mark.filterwarnings("default")  # the frameworks warn of each other


def loader():
    return DataLoader(BatchData(DataFromList([{"x": float(number)} for number in range(40)]), 4), seed=1)


def network():
    torch.manual_seed(0)
    return torch.nn.Linear(1, 1)


def cost(model, batch, seen):
    seen.append(batch["x"].tolist())
    return model(batch["x"][:, None] / 40).square().mean()


def expected(epochs=3):
    """The batches of a bare loop, and the final weight."""
    seen, model = [], network()
    optimizer, data = torch.optim.SGD(model.parameters(), 0.1), loader()
    for _ in range(epochs):
        for batch in data:
            optimizer.zero_grad()
            cost(model, batch, seen).backward()
            optimizer.step()
    return seen, model.weight.item()


@pytest.mark.parametrize("stop", [7, 10, 14])
def test_lightning(stop, tmp_path):
    lightning = pytest.importorskip("lightning")
    from lightning.pytorch.callbacks import ModelCheckpoint

    seen = []

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.network = network()

        def training_step(self, batch, _):
            return cost(self.network, batch, seen)

        def configure_optimizers(self):
            return torch.optim.SGD(self.network.parameters(), 0.1)

    quiet = {
        "logger": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "accelerator": "cpu",
    }
    saves = ModelCheckpoint(tmp_path, "saved", every_n_train_steps=stop, save_top_k=-1)
    lightning.Trainer(max_steps=stop, callbacks=[saves], **quiet).fit(Model(), loader())
    assert len(seen) == stop
    model = Model()
    path = tmp_path / "saved.ckpt"
    trainer = lightning.Trainer(max_epochs=3, enable_checkpointing=False, **quiet)
    trainer.fit(model, loader(), ckpt_path=path, weights_only=False)
    assert (seen, model.network.weight.item()) == expected()


@pytest.mark.parametrize("stop", [7, 10, 14])
def test_accelerate(stop, tmp_path):
    accelerate = pytest.importorskip("accelerate")
    seen = []

    def prepared():
        accelerator = accelerate.Accelerator(cpu=True)
        model = network()
        data, optimizer = loader(), torch.optim.SGD(model.parameters(), 0.1)
        model, optimizer, data = accelerator.prepare(model, optimizer, data)
        accelerator.register_for_checkpointing(data)
        return accelerator, model, optimizer, data

    def train(accelerator, model, optimizer, data, steps):
        while len(seen) < steps:
            for batch in data:
                optimizer.zero_grad()
                accelerator.backward(cost(model, batch, seen))
                optimizer.step()
                if len(seen) == stop:
                    accelerator.save_state(tmp_path)
                if len(seen) == steps:
                    return model.weight.item()
        raise AssertionError

    train(*prepared(), stop)
    objects = prepared()
    objects[0].load_state(tmp_path)
    assert (seen, train(*objects, 3 * STEPS)) == (seen, expected()[1])
    assert seen == expected()[0]


@pytest.mark.parametrize("stop", [7, 10, 14])
def test_the_trainer_of_hugging_face(stop, tmp_path):
    transformers = pytest.importorskip("transformers")
    seen = []

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.network = network()

        def forward(self, x):
            return {"loss": cost(self.network, {"x": x}, seen)}

    class Position(transformers.TrainerCallback):
        def __init__(self, data, resumed):
            self.data, self.resumed = data, resumed

        def on_train_begin(self, args, state, control, **_):
            if self.resumed:
                self.data.load_state_dict(json.loads((self.resumed / "loader.json").read_text()))

        def on_save(self, args, state, control, **_):
            folder = tmp_path / f"checkpoint-{state.global_step}"
            (folder / "loader.json").write_text(json.dumps(self.data.state_dict()))

    class Trainer(transformers.Trainer):
        def get_train_dataloader(self):
            return data

    def train(resumed, **options):
        arguments = transformers.TrainingArguments(
            str(tmp_path),
            num_train_epochs=3,
            learning_rate=0.1,
            lr_scheduler_type="constant",
            max_grad_norm=0.0,
            save_strategy="steps",
            save_steps=stop,
            ignore_data_skip=True,
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
            **options,
        )
        model = Model()
        optimizers = torch.optim.SGD(model.parameters(), 0.1), None
        trainer = Trainer(model, arguments, callbacks=[Position(data, resumed)], optimizers=optimizers)
        trainer.train(resume_from_checkpoint=resumed and str(resumed))
        return model.network.weight.item(), trainer.state.global_step

    data = loader()
    train(None, max_steps=stop)
    assert len(seen) == stop
    data = loader()
    assert train(tmp_path / f"checkpoint-{stop}") == (expected()[1], 3 * STEPS)
    assert seen == expected()[0]


@pytest.mark.parametrize("stop", [7, 10, 14])
def test_ignite(stop, tmp_path):
    pytest.importorskip("ignite")
    from ignite.engine import Engine, Events
    from ignite.handlers import Checkpoint, DiskSaver

    seen = []

    def engine():
        model, data = network(), loader()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)

        def step(_, batch):
            optimizer.zero_grad()
            value = cost(model, batch, seen)
            value.backward()
            optimizer.step()
            return value.item()

        trainer = Engine(step)
        objects = {"trainer": trainer, "model": model, "optimizer": optimizer, "loader": data}
        saver = Checkpoint(objects, DiskSaver(str(tmp_path), require_empty=False), n_saved=None)
        trainer.add_event_handler(Events.ITERATION_COMPLETED(every=stop), saver)
        return trainer, objects

    trainer, objects = engine()
    trainer.add_event_handler(Events.ITERATION_COMPLETED(once=stop), trainer.terminate)
    trainer.run(objects["loader"], max_epochs=3, epoch_length=STEPS)
    assert len(seen) == stop
    trainer, objects = engine()
    saved = torch.load(tmp_path / f"checkpoint_{stop}.pt")
    Checkpoint.load_objects(objects, saved)
    trainer.run(objects["loader"], max_epochs=3, epoch_length=STEPS)
    assert (seen, objects["model"].weight.item()) == expected()
