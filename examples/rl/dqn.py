"""Train an agent by deep Q-learning with double targets and a replay memory.

    python dqn.py --env CartPole-v1 --seed 0
    python play.py train_log/dqn-CartPole-v1-0 --video

The last line is the mean return of 100 episodes that were not seen before, played by the best weights of
evaluations on other ones. It needs `pip install "towerpack-trainers[rl]"`; MinAtar needs `minatar` besides.
"""

from dataclasses import dataclass
from functools import partial

from command_line import run
from evaluation import EVALUATION_SEED, STATISTIC, StopAt, make_envs, test

from towerpack_callbacks import MaxSaver
from towerpack_trainers.rl import DefaultQModel, DQNSettings, DQNTrainer, PolicyEvaluator


@dataclass(frozen=True)
class Training:
    """A training: the agent's settings, the mean return that ends it early, and the evaluations' episodes."""

    settings: DQNSettings
    goal: float = float("inf")
    evaluate: int = 100


TRAININGS = {
    "CartPole-v1": Training(DQNSettings.of("CartPole-v1"), goal=500, evaluate=1000),
    "Acrobot-v1": Training(DQNSettings.of("Acrobot-v1"), evaluate=200),
    "MountainCar-v0": Training(DQNSettings.of("MountainCar-v0")),
    "MinAtar/Breakout-v1": Training(DQNSettings.of("MinAtar/Breakout-v1")),
}
EVALUATIONS = 40


def make_model(env, envs):
    """Makes the agent for an environment."""
    return DefaultQModel.of(envs, TRAININGS[env].settings)


def train(env, seed, log_dir) -> None:
    """Trains, and tests."""
    training, single = TRAININGS[env], make_envs(env, 1)
    settings, model = training.settings, make_model(env, single)
    single.close()
    evaluator = PolicyEvaluator(
        lambda: make_envs(env, training.evaluate), training.evaluate, seed=EVALUATION_SEED
    )
    trainer = DQNTrainer.for_env(
        partial(make_envs, env),
        settings,
        seed=seed,
        evaluation_episodes=0,
        model=model,
        callbacks=[evaluator, MaxSaver(STATISTIC), StopAt(training.goal)],
        steps_per_epoch=settings.iterations // EVALUATIONS * settings.updates,
        max_epoch=EVALUATIONS,
        log_dir=log_dir,
    )
    trainer.train()
    test("dqn", env, seed, model, log_dir, trainer.env_steps)


if __name__ == "__main__":
    run(train, TRAININGS, __doc__)
