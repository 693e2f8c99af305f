"""Learning curves of PPO on CartPole over five seeds: `PPOTrainer.for_env` and Stable-Baselines3.

    python benchmarks/learning_curves.py [--smoke] [--picture FILE]

Both have the settings of `PPOSettings.of("CartPole-v1")` and the same networks, and play ten greedy episodes
after each twentieth of the training. `--picture` draws the means and the ranges as SVG.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from statistics import mean

import _processes
import _rounds
from _screen import on_screen

ENV, SEEDS, ENV_STEPS, EPISODES = "CartPole-v1", _rounds.shorter(5), _rounds.shorter(100_000, 4000), 10
OURS, PEER = "Towerpack", "Stable-Baselines3"
COLOURS = {OURS: "#1f77b4", PEER: "#d95f02"}
SOLVED = 475  # the mean return at which gymnasium calls this environment solved

Curve = list[tuple[float, float]]
"""Steps of all environments, and the mean return of an evaluation after them."""


def ours() -> _processes.Function:
    """Returns a function that trains with a seed."""
    import attrs

    from towerpack_trainers.rl import PPOSettings, PPOTrainer

    settings = attrs.evolve(PPOSettings.of(ENV), env_steps=ENV_STEPS)
    seeds = iter(range(SEEDS))

    def run() -> tuple[Curve, float]:
        begin = time.perf_counter()
        with tempfile.TemporaryDirectory() as log_dir, on_screen():
            trainer = PPOTrainer.for_env(ENV, settings, seed=next(seeds), log_dir=log_dir)
            trainer.train()
        steps = settings.environments * settings.steps / settings.updates_per_iteration
        found = trainer.monitors.get_history("evaluation_mean_return")
        return [(update * steps, value) for update, value in found], time.perf_counter() - begin

    return run


def stable_baselines() -> _processes.Function:
    """Returns a function that trains with a seed, as docs/rl.md shows it."""
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import EvalCallback
    from stable_baselines3.common.env_util import make_vec_env

    torch.set_num_threads(1)  # faster than more, for networks of this size
    seeds = iter(range(SEEDS))

    def run() -> tuple[Curve, float]:
        seed, begin = next(seeds), time.perf_counter()
        watch = EvalCallback(
            make_vec_env(ENV, 1, seed=1000 + seed),
            n_eval_episodes=EPISODES,
            eval_freq=max(ENV_STEPS // 20 // 8, 1),
            verbose=0,
        )
        model = PPO(
            "MlpPolicy",
            make_vec_env(ENV, 8, seed=seed),
            n_steps=125,
            batch_size=250,
            n_epochs=20,
            gamma=0.98,
            gae_lambda=0.8,
            learning_rate=lambda left: left * 1e-3,
            seed=seed,
            device="cpu",
        )
        with tempfile.TemporaryDirectory() as folder:
            watch.log_path = f"{folder}/evaluations"
            model.learn(ENV_STEPS, callback=watch)
        returns = [float(mean(each)) for each in watch.evaluations_results]
        return list(zip(watch.evaluations_timesteps, returns)), time.perf_counter() - begin

    return run


def first_solved(curve: Curve) -> float:
    """Returns the steps before the first solved evaluation; infinity without one."""
    return next((steps for steps, value in curve if value >= SOLVED), float("inf"))


def drawn(curves: dict[str, list[Curve]]) -> str:
    """Returns an SVG with the mean and the range of the curves of each subject."""
    left, top, width, height, most = 46, 12, 560, 240, 500
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 34} {top + height + 62}" '
        'class="curves" role="img" aria-labelledby="curves-title">',
        '<title id="curves-title">Mean return on CartPole by steps of the environments, five seeds</title>',
        "<style>",
        "  .curves text {",
        "    font: 13px system-ui, sans-serif; fill: var(--color-foreground-secondary, #4a4d55);",
        "  }",
        "  @media (prefers-color-scheme: dark) {",
        "    .curves text { fill: var(--color-foreground-secondary, #b0b4bd); }",
        "  }",
        "</style>",
    ]

    def x(steps: float) -> float:
        return round(left + width * steps / ENV_STEPS, 1)

    def y(value: float) -> float:
        return round(top + height * (1 - value / most), 1)

    for value in range(0, most + 1, 100):
        parts.append(f'<path d="M{left} {y(value)}h{width}" stroke="#8884"/>')
        parts.append(f'<text x="{left - 8}" y="{y(value) + 4}" text-anchor="end">{value}</text>')
    for steps in range(0, ENV_STEPS + 1, ENV_STEPS // 4):
        parts.append(f'<text x="{x(steps)}" y="{top + height + 20}" text-anchor="middle">{steps:,}</text>')
    for place, (name, found) in enumerate(curves.items()):
        columns = list(zip(*found))  # the evaluations of all seeds after the same number of steps
        at = [x(mean(steps for steps, _ in column)) for column in columns]
        means, lows, highs = (
            [y(pick([value for _, value in column])) for column in columns] for pick in (mean, min, max)
        )
        band = " ".join(f"{a},{b}" for a, b in [*zip(at, highs), *reversed(list(zip(at, lows)))])
        line = " ".join(f"{a},{b}" for a, b in zip(at, means))
        colour = COLOURS[name]
        parts.append(f'<polygon points="{band}" fill="{colour}" fill-opacity="0.18"/>')
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        at_x, at_y = left + 150 * place, top + height + 48
        parts.append(f'<path d="M{at_x} {at_y - 4}h24" stroke="{colour}" stroke-width="2.5"/>')
        parts.append(f'<text x="{at_x + 30}" y="{at_y}">{name}</text>')
    return "\n".join([*parts, "</svg>\n"])


def trained(makers: dict[str, _processes.Maker]) -> Iterator[tuple[str, Curve, float]]:
    """Yields the curve and the seconds of each training, the subjects in turn."""
    with _processes.running(makers) as functions:
        for _ in range(SEEDS):
            for name, run in functions.items():
                yield name, *run()


def main() -> None:
    """Trains with all seeds, and prints a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--picture", type=Path, help="the SVG to write")
    picture = parser.parse_args().picture
    print(_rounds.heading("towerpack-trainers", "tensorflow", "torch", "stable-baselines3", "gymnasium"))
    makers: dict[str, _processes.Maker] = {OURS: ours}
    if find_spec("stable_baselines3") is not None:
        makers[PEER] = stable_baselines
    curves: dict[str, list[Curve]] = {}
    seconds: dict[str, list[float]] = {}
    for name, curve, taken in trained(makers):
        curves.setdefault(name, []).append(curve)
        seconds.setdefault(name, []).append(taken)
    print(f"PPO on {ENV}, {ENV_STEPS:,} steps, {SEEDS} seeds: median (range) over the seeds")
    for name, found in curves.items():
        last = _rounds.summary([curve[-1][1] for curve in found], ".0f")
        solved = _rounds.summary([first_solved(curve) for curve in found], ",.0f")
        print(
            f"  {name:<18} last return {last}; first of {SOLVED} after steps {solved}; "
            f"seconds with evaluations {_rounds.summary(seconds[name], '.1f')}"
        )
    if picture is not None:
        picture.write_text(drawn(curves), encoding="utf-8")


if __name__ == "__main__":
    main()
