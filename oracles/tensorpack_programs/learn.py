"""Trains the agents among Tensorpack's examples to play a small game, and prints how their return rises.

    python oracles/tensorpack_programs/learn.py /path/to/examples dqn|a3c [--minutes 10] [--folder work]

The programs are the ones of the checkout, unchanged but for their constants: pictures of 10 by 10 pixels, a
small replay memory, short epochs. The game is Breakout of MinAtar. It needs ale-py, gymnasium and minatar.
"""

from __future__ import annotations

import argparse
import importlib
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import towerpack_compat

__all__: list[str] = []

GAME = "MinAtar/breakout"
SMALL = (10, 10)


def main() -> int:
    """Trains one agent, and returns 0 if its return has become more than three times a random player's."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("examples", help="the folder of Tensorpack's examples")
    parser.add_argument("agent", choices=["dqn", "a3c"])
    parser.add_argument("--minutes", type=float, default=10, help="when the training ends")
    parser.add_argument("--folder", help="where outputs go")
    options = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parent / "modules"))
    towerpack_compat.install(report=False)
    folder = {"dqn": "DeepQNetwork", "a3c": "A3C-Gym"}[options.agent]
    sys.path.insert(0, str(Path(options.examples).resolve() / folder))
    os.chdir(options.folder or tempfile.mkdtemp())
    random_return = _random_return()
    train, statistic = {"dqn": (_dqn, "expreplay/mean_score"), "a3c": (_a3c, "mean_score")}[options.agent]
    returns = train(_Returns(statistic, options.minutes))
    best = max(returns, default=0.0)
    print(f"return of a random player {random_return:.2f}, of {options.agent} at last {best:.2f}")
    return int(best < 3 * random_return)


def _random_return(episodes: int = 200) -> float:
    env = importlib.import_module("gym").make(GAME)
    total = 0.0
    for _ in range(episodes):
        env.reset()
        over = False
        while not over:
            _, reward, over, _ = env.step(random.randrange(env.action_space.n))
            total += reward
    return total / episodes


class _Returns:
    """Makes the callback that prints the returns of each epoch, and ends the training when time is over."""

    def __init__(self, statistic: str, minutes: float) -> None:
        self.statistic, self.end = statistic, time.monotonic() + 60 * minutes
        self.start, self.values = time.monotonic(), [0.0][:0]

    def callback(self) -> Any:
        """Returns the callback, the last of a training."""
        returns, tensorpack = self, importlib.import_module("tensorpack")

        class Print(tensorpack.Callback):  # type: ignore[name-defined,misc]
            def _trigger_epoch(self) -> None:
                monitors = self.trainer.monitors
                if returns.statistic in monitors:
                    step, value = monitors.get_history(returns.statistic)[-1]
                    if step == self.global_step and np.isfinite(value):
                        returns.values.append(float(value))
                        spent = time.monotonic() - returns.start
                        print(f"{spent:.0f} s, step {step}: return {value:.2f}", flush=True)
                if time.monotonic() > returns.end:
                    raise tensorpack.StopTraining

        return Print()


def _dqn(returns: _Returns) -> list[float]:
    tensorpack, program = importlib.import_module("tensorpack"), importlib.import_module("DQN")
    program.IMAGE_SIZE, program.ENV_NAME, program.USE_GYM = SMALL, GAME, True
    program.MEMORY_SIZE, program.INIT_MEMORY_SIZE = 5e4, 2000
    program.STEPS_PER_EPOCH, program.NUM_PARALLEL_PLAYERS = 1000, 1
    program.args = argparse.Namespace(num_eval=10, env=GAME)
    tensorpack.logger.set_logger_dir("dqn", action="d")
    actions = program.get_player().action_space.n
    config = program.get_config(program.Model((*SMALL, 3), program.FRAME_HISTORY, "Double", actions))
    update = tensorpack.RunOp(program.DQNModel.update_target_param)
    config.callbacks[1] = tensorpack.PeriodicTrigger(update, every_k_steps=500)
    config.callbacks.append(returns.callback())
    tensorpack.launch_train_with_config(config, tensorpack.SimpleTrainer())
    return returns.values


def _a3c(returns: _Returns) -> list[float]:
    tensorpack, program = importlib.import_module("tensorpack"), importlib.import_module("train-atari")
    program.IMAGE_SIZE, program.STATE_SHAPE, program.ENV_NAME = SMALL, (*SMALL, 3), GAME
    program.NUM_ACTIONS = program.get_player().action_space.n
    program.STEPS_PER_EPOCH, program.EVAL_EPISODE, program.SIMULATOR_PROC = 300, 20, 8
    program.BATCH_SIZE = 64
    program.args = argparse.Namespace(load=None)

    def config(**arguments: Any) -> Any:
        arguments["callbacks"] = [*arguments["callbacks"], returns.callback()]
        return tensorpack.TrainConfig(**arguments)

    program.TrainConfig = config
    tensorpack.logger.set_logger_dir("a3c", action="d")
    program.train()
    return returns.values


if __name__ == "__main__":
    sys.exit(main())
