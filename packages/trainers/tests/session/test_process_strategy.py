"""The places at which the loop calls its process strategy."""

import contextlib
import inspect

import pytest

from towerpack_callbacks import Callback, ModelSaver, StopTraining
from towerpack_callbacks.checkpoint import read_checkpoint
from towerpack_inputsource import QueueInput
from towerpack_trainers import SimpleTrainer, Trainer
from towerpack_trainers.distributed import ProcessStrategy
from towerpack_trainers.session import SingleProcess


class Noting(ProcessStrategy):
    """Records its calls, and acts like the strategy of a single process."""

    single_steps = True

    def __init__(self, translated=None):
        self.calls, self.single, self.translated = [], SingleProcess(), translated

    def note(self, *what):
        self.calls.append(what if len(what) > 1 else what[0])

    @contextlib.contextmanager
    def failing_together(self, coord):
        try:
            yield
        except BaseException as error:
            self.note("failed", error)
            raise

    def gradient_exchange(self, pairs):
        self.note("exchange")
        return pairs

    def agree_on_seed(self, choose):
        self.note("agree_on_seed")
        return choose() + 1

    def local_seed(self, seed):
        return seed

    def add_ops(self, graph):
        self.note("add_ops")

    def check_agreement(self, loop, source):
        self.note("check_agreement", loop.max_epoch, loop.steps_per_epoch)

    def create_session(self, graph, options, start):
        self.note("create_session")
        return self.single.create_session(graph, options, start)

    def restore(self, start, sess, run):
        self.note("restore")
        self.single.restore(start, sess, run)

    def state_dict(self):
        return {"processes": 1}

    def guard_step(self, run_step, loop, sess):
        def step():
            self.note("step")
            run_step()

        return step

    def announce_stop(self, reason, loop, sess):
        self.note("announce_stop", reason, loop.global_step)

    def translate_error(self, caught, coord):
        self.note("translate_error", caught)
        return self.translated or caught

    def announce_failure(self, error):
        self.note("announce_failure", error)

    def leave(self):
        self.note("leave")


class Mark(Callback):
    """Records the hooks of callbacks among the calls; may raise after a step."""

    def __init__(self, calls, error=None, step=0):
        self.calls, self.error, self.step = calls, error, step

    def _setup_graph(self):
        self.calls.append("setup_graph")

    def _before_train(self):
        self.calls.append("before_train")

    def _trigger_step(self):
        if self.global_step == self.step:
            raise self.error

    def _after_train(self):
        self.calls.append("after_train")


def train(configure, error=None, step=0, translated=None, **changes):
    processes = Noting(translated)
    config = configure(
        callbacks=[Mark(processes.calls, error, step)], steps_per_epoch=2, max_epoch=1, **changes
    )
    with contextlib.nullcontext() if not isinstance(error, Exception) else contextlib.suppress(type(error)):
        SimpleTrainer(config, processes=processes).train()
    return processes.calls


START = ["agree_on_seed", "exchange", "add_ops", "setup_graph", ("check_agreement", 1, 2), "create_session"]
START += ["restore", "before_train"]


def test_an_undisturbed_training(configure):
    assert train(configure) == [*START, "step", "step", "after_train", "leave"]


def test_a_normal_stop_is_announced_before_it_is_translated(configure):
    stop = StopTraining("enough")
    assert train(configure, stop, 1) == [
        *START,
        "step",
        ("announce_stop", "enough", 1),
        ("translate_error", stop),
        "after_train",
        "leave",
    ]


def test_a_stop_after_the_last_step_stops_no_other_process(configure):
    calls = train(configure, StopTraining("enough"), 2)
    assert calls == [*START, "step", "step", ("translate_error", calls[-3][1]), "after_train", "leave"]


def test_the_end_of_a_finite_input_is_announced(kit, configure):
    processes = Noting()
    config = configure(data=QueueInput(kit.line_data(3), infinite=False), steps_per_epoch=2, max_epoch=4)
    SimpleTrainer(config, processes=processes).train()
    assert ("announce_stop", "its input has ended", 3) in processes.calls


def test_a_failure_is_announced_at_once(configure):
    error = ValueError("mine")
    assert train(configure, error, 1) == [
        *START,
        "step",
        ("translate_error", error),
        ("announce_failure", error),
        "after_train",
        ("failed", error),
    ]


def test_events_of_another_process_are_raised_or_end_the_training(configure):
    theirs = ConnectionError("rank 1 is lost")
    with pytest.raises(ConnectionError, match="rank 1 is lost"):
        train(configure, ValueError("woken"), 1, translated=theirs)
    assert train(configure, ValueError("woken"), 1, translated=StopTraining("rank 1"))[-1] == "leave"


def test_a_failure_in_building_is_reported(kit, configure):
    class Broken(kit.Line):
        def build_graph(self, x, y):
            raise ZeroDivisionError

    processes = Noting()
    with pytest.raises(ZeroDivisionError) as caught:
        SimpleTrainer(configure(model=Broken()), processes=processes)
    assert processes.calls == ["agree_on_seed", ("failed", caught.value)]
    processes = Noting()
    with pytest.raises(ValueError, match="takes a TrainConfig, received 3"):
        SimpleTrainer(3, processes=processes)
    assert [call[0] for call in processes.calls] == ["failed"]


def test_the_seed_and_the_state_are_those_of_all(configure, tmp_path):
    trainer = SimpleTrainer(configure(callbacks=[ModelSaver()], seed=4), processes=Noting())
    trainer.train()
    state = read_checkpoint(tmp_path / "run").state
    assert (trainer.seed, state["seed"], state["processes"]) == (5, 5, 1)


def test_other_processes_than_the_chief_write_and_restore_nothing(configure, tmp_path):
    class Second(Noting):
        is_chief = False

    saver = ModelSaver()
    trainer = SimpleTrainer(configure(callbacks=[saver], resume="auto", monitors=None), processes=Second())
    assert (trainer.is_chief, trainer.log_dir, trainer.config.resume) == (False, None, None)
    trainer.train()
    assert saver not in list(trainer.callbacks)
    assert not (tmp_path / "run").exists()


def test_steps_of_several_processes_are_made_one_by_one(configure):
    with pytest.raises(ValueError, match="steps_per_run=2 repeats the step in the graph"):
        SimpleTrainer(configure(steps_per_run=2, steps_per_epoch=4), processes=Noting()).train()


def test_one_process_runs_the_trainers_own_step():
    alone, step = SingleProcess(), object()
    assert alone.guard_step(step, None, None) is step
    assert alone.is_chief and alone.gradient_exchange is None and not alone.single_steps
    assert alone.local_seed(3) == 3
    assert alone.state_dict() == {}


def test_one_processes_strategy_is_the_default(configure):
    assert isinstance(SimpleTrainer(configure()).processes, SingleProcess)
    assert isinstance(Trainer(log_dir=None).processes, SingleProcess)


def test_every_place_of_the_loop_is_abstract():
    places = {name for name, thing in vars(ProcessStrategy).items() if inspect.isfunction(thing)}
    assert places == ProcessStrategy.__abstractmethods__
