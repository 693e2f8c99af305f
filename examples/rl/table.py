"""Train the agents of this folder with their full settings, and print their figures as a table.

    python table.py                            all short trainings
    python table.py ppo/CartPole-v1            one
    python table.py ppo/CartPole-v1 --seed 7   by another seed
    python table.py --atari                    Pong, which takes almost an hour

The exit status is 1 if a goal is missed, or if a random agent reaches it, which is tested first.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from command_line import log_directory

HERE = Path(__file__).parent


class Row(NamedTuple):
    """An agent to train; its figure is the mean return of each seed's test episodes."""

    script: str
    env: str
    goal: float
    seeds: int = 5
    most_env_steps: float = float("inf")

    @property
    def name(self) -> str:
        """The name on the command line."""
        return f"{self.script}/{self.env}"


ROWS = [
    Row("ppo", "CartPole-v1", goal=475, most_env_steps=200_000),
    Row("dqn", "CartPole-v1", goal=500, most_env_steps=50_000),
    Row("batch_a3c", "CartPole-v1", goal=400, seeds=3),
    Row("dqn", "Acrobot-v1", goal=-80, seeds=1, most_env_steps=100_000),
    Row("dqn", "MountainCar-v0", goal=-105, seeds=1, most_env_steps=120_000),
    Row("ppo", "Pendulum-v1", goal=-250, seeds=1, most_env_steps=100_000),
    Row("ppo", "MinAtar/Breakout-v1", goal=8, seeds=1, most_env_steps=1_000_000),
]
ATARI = [Row("ppo", "Pong", goal=-10, seeds=1)]


def run(row: Row, seed: int) -> tuple[bool, str]:
    """Trains in a new process; returns whether it reached the goal, and its row of the table."""
    command = [sys.executable, str(HERE / f"{row.script}.py"), "--env", row.env, "--seed", str(seed)]
    start = time.perf_counter()
    process = subprocess.run(command, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    begin = f"| `{row.script}.py` | {row.env} | {seed} |"
    if process.returncode:
        return False, f"{begin} failed: {process.stderr.strip().splitlines()[-1]} | | | |"
    log_dir = log_directory(row.script, row.env, seed)
    result = json.loads((log_dir / "result.json").read_text(encoding="utf-8"))
    returns, steps = result["returns"], result["env_steps"]
    met = np.mean(returns) >= row.goal and steps <= row.most_env_steps
    figure = f"{np.mean(returns):.1f} ± {np.std(returns):.1f}"
    verdict = f"{'met' if met else 'missed'}: at least {row.goal:g}"
    return met, f"{begin} {figure} | {verdict} | {steps:,} | {seconds:.0f} s |"


def main() -> int:
    """Trains the agents named on the command line, or all with short trainings."""
    parser = argparse.ArgumentParser(description="The table of agents")
    parser.add_argument("rows", nargs="*", metavar="ROW", help="such as ppo/CartPole-v1")
    parser.add_argument("--seed", type=int, help="one seed, in place of 0, 1, ...")
    parser.add_argument("--atari", action="store_true", help="Pong, which takes longer")
    args = parser.parse_args()
    rows = {row.name: row for row in [*ROWS, *ATARI]}
    if unknown := [name for name in args.rows if name not in rows]:
        parser.error(f"received {', '.join(unknown)}; there are {', '.join(rows)}")
    chosen = [rows[name] for name in args.rows] or (ATARI if args.atari else ROWS)
    missed = []
    print(f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores\n")
    print("| example | environment | seed | mean return of 100 episodes | goal | steps | whole process |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for env in dict.fromkeys(row.env for row in chosen):
        goal = min(row.goal for row in chosen if row.env == env)
        met, line = run(Row("at_random", env, goal), seed=0)
        print(line, flush=True)
        if met:
            missed.append(f"acting at random reaches {goal:g} in {env}")
    for row in chosen:
        for seed in range(row.seeds) if args.seed is None else [args.seed]:
            met, line = run(row, seed)
            print(line, flush=True)
            if not met:
                missed.append(f"{row.name} by seed {seed}")
    print(f"\nmissed: {', '.join(missed)}" if missed else "\nall met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
