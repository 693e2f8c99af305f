"""Agents: PPO compared with other trainers, DQN's updates, and acting in Atari games with its two parts.

    python benchmarks/rl.py [--smoke]

PPO trains with the same networks and batch sizes on the same vectorised CartPole; that of rlox is in Rust.
"Update alone" is what is left of a training without acting: drawing minibatches, and learning from them.
Each subject has a process of its own, with one thread for each op, a trainer's default; Stable-Baselines3 is
judged in the faster of two ways, with one thread and with as many as PyTorch chooses.

An agent that acts waits for the environments and for the policy in turn, so the two alone say what is left
for everything else. All are measured in one process, with the environments' threads the same.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from importlib.util import find_spec
from statistics import median

import _acting
import _dqn
import _ppo
import _processes
import _rounds
import _verdicts

ROUNDS = _rounds.shorter(3)
OURS, PEER, RUST = "PPOTrainer", "Stable-Baselines3", "rlox"
MEMORY, HELD = "DQNTrainer, batches of a memory", "SimpleTrainer, a held batch"
THREADS = {f"{PEER}, one thread": 1, f"{PEER}, all threads": None}


@contextlib.contextmanager
def subjects(setting: _ppo.Setting) -> Iterator[dict[str, _processes.Function]]:
    """All trainers, in new processes."""
    makers: dict[str, _processes.Maker] = {OURS: functools.partial(_ppo.trainer, setting)}
    if find_spec("stable_baselines3") is not None:
        makers |= {
            name: functools.partial(_ppo.stable_baselines, setting, threads)
            for name, threads in THREADS.items()
        }
    if find_spec("rlox") is not None:
        makers[RUST] = functools.partial(_ppo.rlox_ppo, setting)
    with _processes.running(makers) as functions:
        yield functions


def learning(setting: _ppo.Setting, verdicts: _verdicts.Verdicts) -> None:
    """Measures PPO in one setting, and judges it."""
    figures = _rounds.measure_afresh(functools.partial(subjects, setting), ROUNDS)
    print(
        f"PPO on {_ppo.ENVS} CartPoles, settings of {setting.name}: rollouts of {setting.steps} steps, "
        f"batches of {setting.batch}, {setting.epochs} epochs"
    )
    for name, speeds in figures.items():
        steps, updates = (_rounds.summary(values, ",.0f") for values in zip(*speeds))
        print(f"  {name:<32} {steps} steps/s; update alone: {updates} updates/s")
    peers = [name for name in figures if name in THREADS]
    for place, (what, limit) in enumerate([("whole training", 5.0), ("update alone", 3.0)]):
        found = {name: [speed[place] for speed in speeds] for name, speeds in figures.items()}
        if peers:
            fastest = max(peers, key=lambda name: median(found[name]))
            ratio = _rounds.ratios(found[OURS], found[fastest])
            verdicts.at_least(f"{setting.name}: {what}, {OURS} / {fastest}", ratio, limit)
        if RUST in found:
            verdicts.at_least(
                f"{setting.name}: {what}, {OURS} / {RUST}", _rounds.ratios(found[OURS], found[RUST]), 1
            )


def acting(verdicts: _verdicts.Verdicts) -> None:
    """Measures acting in a game and its parts, and judges it."""
    with _processes.running({"acting": functools.partial(_acting.rounds, ROUNDS)}) as functions:
        found: list[_acting.Speed] = functions["acting"]()
    print(f"acting in {_acting.ENVS} games of Pong (AtariVectorEnv), a small network: steps/s")
    for name, values in zip(_acting.Speed._fields, zip(*found)):
        print(f"  {name:<12} {_rounds.summary(list(values), ',.0f')}")
    share = [each.acting * (1 / each.environment + 1 / each.inference) for each in found]
    verdicts.at_least("acting x (1/environment + 1/inference)", share, 0.9)
    verdicts.untargeted("acting / a bare loop of both calls", [each.acting / each.in_turn for each in found])


def updating(verdicts: _verdicts.Verdicts) -> None:
    """Measures the updates of DQN with a memory and without, and judges them."""
    makers = {MEMORY: _dqn.from_memory, HELD: _dqn.held}
    rates = _rounds.measure_afresh(lambda: _processes.running(makers), ROUNDS)
    print("DQN on CartPole, settings of DQNTrainer.for_env, one step of each environment between 64 updates")
    for name, values in rates.items():
        print(f"  {name:<32} {_rounds.summary(values, ',.0f')} updates/s")
    verdicts.at_least(f"{MEMORY} / {HELD}", _rounds.ratios(rates[MEMORY], rates[HELD]), 0.8)


def main() -> None:
    """Measures all."""
    packages = ("tensorflow", "torch", "stable-baselines3", "gymnasium", "ale-py")
    print(_rounds.heading("towerpack-trainers", *packages))
    verdicts = _verdicts.Verdicts()
    for setting in _ppo.SETTINGS[: _rounds.shorter(2)]:
        learning(setting, verdicts)
    updating(verdicts)
    if find_spec("ale_py") is None:
        print("ale-py is not installed: no games")
    else:
        acting(verdicts)
    verdicts.leave()


if __name__ == "__main__":
    main()
