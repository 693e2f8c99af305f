"""`python -m mutants` tries all mutants of all cores, `python -m mutants periods plans` those of two."""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from .cores import CORES, Core
from .mutations import mutants_of
from .trial import survivors_of

_LEAST_KILLED = 0.95
_PROCESSES = 2


def main(names: list[str]) -> int:
    """Prints the figures and the survivors of each core; returns the exit status."""
    cores = [core for core in CORES if not names or core.name in names]
    unknown = set(names) - {core.name for core in cores}
    if unknown:
        print(
            f"no core is called {sorted(unknown)}; there are {[core.name for core in CORES]}", file=sys.stderr
        )
        return 2
    passed = [_passes(core) for core in cores]  # all of them, whatever the first one does
    return int(not all(passed))


def _passes(core: Core) -> bool:
    with ProcessPoolExecutor(_PROCESSES, get_context("spawn")) as executor:
        parts = [executor.submit(survivors_of, core, part, _PROCESSES) for part in range(_PROCESSES)]
        survivors = [mutant for part in parts for mutant in part.result()]
    total = sum(1 for _ in mutants_of(core.path.read_text(encoding="utf-8")))
    alike = [mutant for mutant in survivors if mutant.line in core.equivalent]
    alive = sorted((mutant for mutant in survivors if mutant not in alike), key=lambda each: each.number)
    killed, able = total - len(survivors), total - len(alike)
    figures = (
        f"{killed} of {able} mutants killed ({killed / able:.1%}), {len(alike)} more behave as the original"
    )
    print(f"{core.name}: {figures}", flush=True)
    for mutant in alive:
        print(f"    {core.module}:{mutant.number}: {mutant.original}\n        survived as {mutant.line}")
    unused = core.equivalent.keys() - {mutant.line for mutant in alike}
    for line in sorted(unused):
        print(f"    this mutant is said to behave as the original and was killed, or is none: {line}")
    return killed >= _LEAST_KILLED * able and not unused


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
