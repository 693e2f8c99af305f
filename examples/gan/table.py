"""Run the examples of this folder with their full settings, and print their figures as a table.

    python table.py                  all of them
    python table.py dcgan infogan    some

The exit status is 1 if a criterion is missed.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
# Of how many seeds, 0, 1, ..., how many must meet the criteria. The others run with the seed 0.
SEEDS = {"mixture_grid": (5, 4)}


def run(name: str, seed: int) -> tuple[bool, str]:
    """Runs an example in a process of its own; returns whether it passed, and its row of the table."""
    log_dir = Path("train_log") / f"{name}_{seed}"
    command = [sys.executable, str(HERE / f"{name}.py"), "--seed", str(seed), "--log-dir", str(log_dir)]
    start = time.perf_counter()
    process = subprocess.run(command, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if process.returncode:
        return False, f"| `{name}.py` | {seed} | failed: {process.stderr.strip().splitlines()[-1]} | | |"
    result = json.loads((log_dir / "result.json").read_text(encoding="utf-8"))
    missed = [criterion for criterion, met in result["criteria"].items() if not met]
    verdict = f"missed: {', '.join(missed)}" if missed else "met"
    return not missed, f"| `{name}.py` | {seed} | {result['figure']} | {verdict} | {seconds:.0f} s |"


def main() -> int:
    """Runs the examples that the command line names, or all."""
    found = [
        path.stem for path in sorted(HERE.glob("*.py")) if "\nfrom command_line import" in path.read_text()
    ]
    failed = []
    print(f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores\n")
    print("| example | seed | figure | criteria | whole process |\n| --- | --- | --- | --- | --- |")
    for name in sys.argv[1:] or found:
        seeds, needed = SEEDS.get(name, (1, 1))
        passed = 0
        for seed in range(seeds):
            is_met, row = run(name, seed)
            passed += is_met
            print(row, flush=True)
        if passed < needed:
            failed.append(name)
    print(f"\nmissed: {', '.join(failed)}" if failed else "\nall met")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
