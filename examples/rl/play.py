"""Play with an agent trained by another script of this folder.

    python play.py train_log/ppo-CartPole-v1-0              100 episodes, and their mean return
    python play.py train_log/ppo-CartPole-v1-0 --seed 7     others
    python play.py train_log/ppo-CartPole-v1-0 --video      one episode, as a video in that directory

A video needs `pip install "towerpack-trainers[rl,video]"`.
"""

import argparse
import importlib
import json
from pathlib import Path

import gymnasium
from evaluation import TEST_SEED, TESTS, figure, greedy, make_envs, play, register


def load(log_dir):
    """Returns the name of the environment, and a predictor of actions with the best weights."""
    result = json.loads((log_dir / "result.json").read_text(encoding="utf-8"))
    script = importlib.import_module(result["script"])
    envs = make_envs(result["env"], 1)
    model = script.make_model(result["env"], envs)
    envs.close()
    return result["env"], greedy(model, log_dir)


def record(name, predictor, seed, directory) -> float:
    """Records one episode, and returns its return."""
    from gymnasium.wrappers import RecordVideo

    register(name)
    env = RecordVideo(gymnasium.make(name, render_mode="rgb_array"), str(directory))
    [episode] = play(predictor, env, 1, seed)
    env.close()
    return float(episode.total)


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description="Play with a trained agent")
    parser.add_argument("log_dir", type=Path, help="the directory of the training")
    parser.add_argument("--seed", type=int, default=TEST_SEED, help="of the first episode")
    parser.add_argument("--episodes", type=int, default=TESTS)
    parser.add_argument("--video", action="store_true", help="record one episode instead")
    args = parser.parse_args()
    name, predictor = load(args.log_dir)
    with predictor:
        if args.video:
            total = record(name, predictor, args.seed, args.log_dir / "video")
            print(f"{args.log_dir / 'video'}: an episode of return {total:.1f}")
            return
        envs = make_envs(name, min(args.episodes, 100))
        returns = [episode.total for episode in play(predictor, envs, args.episodes, args.seed)]
        envs.close()
    print(figure(returns))


if __name__ == "__main__":
    main()
