"""Writes missing golden states: `python write.py`.

Existing states are never rewritten: they hold later versions to the promises of earlier ones. A format
or a random stream that changes adds trees here, under new names, and a line to the changelog.
"""

import importlib.metadata
import json
import sys
from itertools import islice
from pathlib import Path

import numpy as np
from trees import SEED, TREES, Tree, follow

HERE = Path(__file__).parent


def written(tree: Tree) -> dict[str, object]:
    """A state taken in mid-pass, and the following datapoints: in the flow itself, and in a resumed one."""
    flow = tree.build()
    if tree.seeded:
        flow.seed(SEED)
    for _ in range(tree.epoch):
        next(iter(flow))  # each iterator starts the next pass
    iterator = iter(flow)
    for _ in islice(iterator, tree.index):
        pass
    state = json.loads(json.dumps(flow.state_dict()))
    followed = follow(iterator, flow, tree.ordered)
    resumed = tree.build()
    resumed.load_state_dict(state)
    assert follow(iter(resumed), resumed, tree.ordered) == followed
    assert followed["rest"] and followed["next"]
    version = importlib.metadata.version("towerpack-dataflow")
    return {
        "written by": f"towerpack-dataflow {version}, NumPy {np.__version__}",
        "state": state,
        **followed,
    }


def main() -> int:
    """Writes missing states; 1 if there was nothing to write."""
    missing = {name: tree for name, tree in TREES.items() if not (HERE / f"{name}.json").exists()}
    if not missing:
        print("all golden states are there, and none is ever written again", file=sys.stderr)
        return 1
    for name, tree in missing.items():
        content = written(tree)
        with open(HERE / f"{name}.json", "x", encoding="utf-8") as file:  # "x": never over another
            json.dump(content, file)
            file.write("\n")
        print(name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
