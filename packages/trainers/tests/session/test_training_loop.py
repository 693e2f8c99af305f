"""The loop by itself, around a step that only counts."""

import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callbacks, LoopState
from towerpack_trainers.session import StopRequests, StopSignals, TrainingLoop


class Noted(list):
    """Stands in for callbacks: records the calls."""

    def __getattr__(self, name):
        return lambda *arguments: self.append((name, *arguments))


def play(max_epoch=2, unobserved=lambda loop: 0, own=(), steps_per_run=1, **changes):
    """Runs the loop; returns the calls of callbacks and the number of steps before each step."""
    loop = LoopState(**{"steps_per_epoch": 2, "max_epoch": max_epoch, **changes})
    coord, calls, steps = tf.train.Coordinator(), Noted(), []

    def run_step():
        steps.append(loop.global_step)
        loop.global_step += steps_per_run

    requests = StopRequests(coord, StopSignals(cancel=coord.request_stop), Callbacks([]), is_chief=True)
    training = TrainingLoop(loop, calls, requests, steps_per_run)
    training.run(max_epoch, run_step, lambda: unobserved(loop), own)
    return list(calls), steps


def test_each_epoch_has_its_steps_and_its_calls():
    calls, steps = play()
    assert steps == [0, 1, 2, 3]
    assert calls == [
        *[("before_epoch",), ("trigger_step", 1, 1, False), ("trigger_step", 2, 1, True)],
        *[("after_epoch",), ("trigger_epoch",)],
        *[("before_epoch",), ("trigger_step", 3, 2, False), ("trigger_step", 4, 2, True)],
        *[("after_epoch",), ("trigger_epoch",)],
    ]


def test_a_resumed_epoch_has_the_rest_of_its_steps():
    assert play(starting_epoch=2, starting_step=1, global_step=3)[1] == [3]
    assert play(starting_epoch=3) == ([], [])


def test_a_call_of_several_steps_is_triggered_for_once():
    calls, steps = play(max_epoch=1, steps_per_run=2)
    assert steps == [0] and ("trigger_step", 2, 1, True) in calls


def all_but_the_last(loop):
    left = loop.steps_per_epoch - 2 - loop.local_step
    loop.local_step += left
    loop.global_step += left
    return left


def test_unobserved_steps_are_left_to_the_session():
    # The last step of an epoch is a step of its own.
    assert play(max_epoch=1, unobserved=all_but_the_last)[1] == [1]
    assert play(max_epoch=1, unobserved=all_but_the_last, own={"run_step": None})[1] == [0, 1]
