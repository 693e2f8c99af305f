"""Rounds per second of WGAN-GP: `GANTrainer`, the bare round, and Keras' own tutorial.

    python benchmarks/gan.py [--smoke]

A round has several steps of the critic and one of the generator. The same networks, batch size and optimizer
everywhere: once networks for 8 x 8 pixels (examples/gan/networks.py), and once those of the tutorial, whose
time is nearly all in convolutions. Each subject has a process of its own; they take turns, and all are
started anew for each round of measurements. The first epoch of each training is not counted: in it graphs are
pruned and functions traced.

The tutorial gives all critic steps of a round the same real batch, while ours, and the paper's, draw one for
each. Ours is judged in the faster of two ways, with one thread for each op, a trainer's default, and with
all, as Keras has; Keras in the faster of its two, with XLA (as installed) and without. What `GANTrainer` by
default can reach at most is the bare round: one session call on batches that are in the graph.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from statistics import median

import _keras_wgan
import _processes
import _rounds
import _verdicts
import _wgan

ROUNDS = _rounds.shorter(3)
TRAINER, BARE, KERAS = "GANTrainer", "the bare round", "Keras fit"
OURS = {TRAINER: False}
WAYS: dict[str, str | bool] = {f"{KERAS}, no XLA": False}
if not _rounds.SMOKE:
    WAYS[f"{KERAS}, XLA"] = "auto"
    OURS[f"{TRAINER}, all threads"] = True
SETTINGS = [*_wgan.SMALL, _wgan.TUTORIAL][: _rounds.shorter(3)]


@contextlib.contextmanager
def subjects(setting: _wgan.Setting) -> Iterator[dict[str, _processes.Function]]:
    """All that is measured, in new processes, warmed up."""
    makers = {BARE: functools.partial(_wgan.bare, setting)}
    makers |= {name: functools.partial(_wgan.trainer, setting, every) for name, every in OURS.items()}
    makers |= {name: functools.partial(_keras_wgan.fit, setting, jit) for name, jit in WAYS.items()}
    with _processes.running(makers) as functions:
        _rounds.warm_up(functions)
        yield functions


def compare(setting: _wgan.Setting, verdicts: _verdicts.Verdicts) -> None:
    """Measures one setting and judges it."""
    figures = _rounds.measure_afresh(functools.partial(subjects, setting), ROUNDS)
    print(
        f"{setting.name} networks, batch {setting.batch}, {setting.d_steps} critic steps: "
        f"rounds/s, median of {ROUNDS} interleaved rounds (range)"
    )
    for name, values in figures.items():
        print(f"  {name:<20} {_rounds.summary(values, '7.2f')}")
    fastest = max(WAYS, key=lambda name: median(figures[name]))
    best = max(OURS, key=lambda name: median(figures[name]))
    title = f"{setting.name}, {setting.d_steps} critic steps:"
    verdicts.at_least(f"{title} {best} / {fastest}", _rounds.ratios(figures[best], figures[fastest]), 1.5)
    limit = _rounds.ratios(figures[TRAINER], figures[BARE])
    verdicts.at_least(f"{title} {TRAINER} / {BARE}", limit, 0.9)


def main() -> None:
    """Measures and judges."""
    print(_rounds.heading("tensorflow", "keras"))
    verdicts = _verdicts.Verdicts()
    for setting in SETTINGS:
        compare(setting, verdicts)
    verdicts.leave()


if __name__ == "__main__":
    main()
