"""Act at random, which no goal may be reached by.

    python at_random.py --env CartPole-v1 --seed 0

The last line is the mean return of the episodes that trained agents are tested with.
"""

from command_line import run
from evaluation import GOALS, TEST_SEED, TESTS, make_test_envs, report

from towerpack_trainers.rl import play_episodes


def act(env, seed, log_dir) -> None:
    """Plays the test episodes by actions that are drawn evenly."""
    envs = make_test_envs(env)
    envs.action_space.seed(seed)
    played = play_episodes(envs, lambda observations: envs.action_space.sample(), TESTS, seed=TEST_SEED)
    envs.close()
    log_dir.mkdir(parents=True, exist_ok=True)
    report("at_random", env, seed, played, log_dir, sum(episode.length for episode in played))


if __name__ == "__main__":
    run(act, GOALS, __doc__)
