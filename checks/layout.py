"""Checks that the folders show the architecture: sizes, names, docstrings, tests that mirror them.

`python checks/layout.py` prints one line for each finding and exits with status 1 if there is one.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from source_files import ROOT, WHEELS, Module, modules, report, test_files

_MOST_ENTRIES = _MOST_FILES = 16
_FEWEST_LINES, _MOST_LINES = 40, 350
_UNCOUNTED = {
    "__init__.pyi",
    "__init__.py",
    "__main__.py",
    "_errors.py",
    "testing.py",
    "testing",
    "py.typed",
    "__pycache__",
}
# What every wheel or command has, under the same name and with the same meaning.
_SAME_EVERYWHERE = {"__init__", "__main__", "_errors", "testing", "_argument_checks"}
# Files that are small for a reason.
_SMALL = {
    "_activation.py": "where `BNReLU` is looked for, and where the next activations go",
    "_aligned_memory.py": "serves batches, slots and messages, on the lowest floor that all of them see",
    "_as_dataflow.py": "serves operators and runtime; one of the sources would be above another one in it",
    "_batch_allocator.py": "serves buffers and collating, which do not know each other",
    "_cache_storage.py": "what all storages of a cache keep to; none of them knows another one",
    "_container_copies.py": "serves flows and operators; cuts a circle between them",
    "_errors.py": "compat raises few errors",
    "_old_methods.py": "two methods of flows; what installs them knows no TensorFlow",
    "_dry_run.py": "trainings, evaluations and predictions ask it, and do not know each other",
    "_tower_devices.py": "trainers and builders of old programs ask it, and do not know each other",
    "_old_migrate_command.py": "one command, until its old name goes",
    "_run_command.py": "one command",
    "adapted.py": "the place that pickles of adapted classes name",
    "compat.py": "a module of Tensorpack",
    "sitecustomize.py": "Python looks for this name",
    "_describe_command.py": "one command, which prints what `reports` describes",
    "_env_command.py": "one command, which prints what `reports` collects",
    "_file_monitors.py": "what hooks and trainers have by default: four monitors that do not know each other",
    "_progress.py": "serves formats that do not know each other",
    "_run_files.py": "the names that those who write and those who read a run's files agree on",
    "_shown_value.py": "serves writers of formats that do not know each other",
    "_step_fetch.py": "what a callback declares; loops and trainers know it without knowing callbacks",
    "_step_timeout.py": "one callback, which has nothing in common with the others that stop a training",
    "_datapoint_size.py": "serves measurements and workers, which do not know each other",
}
_SAYS_NOTHING = re.compile(r"^_?(utils?|common|misc|helpers?|base\d*|tools?|stuff|core)$")
_PRIVATE_IMPORT = re.compile(
    r"^\s*from towerpack_\w+(\.\w+)*\.?\b_(?!_main__)\w+ import|^\s*from towerpack_[\w.]+ import .*\b_[a-z]",
    re.MULTILINE,
)
_MOST_PRIVATE = 0.1


def main() -> None:
    """Runs all checks."""
    parsed = list(modules())
    report(chain(_sizes(parsed), _names(parsed), _folders(), _mirrors(), _front_doors()))


def _sizes(parsed: list[Module]) -> Iterator[str]:
    for module in parsed:
        lines = len(module.lines)
        if lines > _MOST_LINES:
            yield f"{module.at()}: {lines} lines, at most {_MOST_LINES}. Divide it by concept."
        dunder = module.path.name.startswith("__")
        if lines < _FEWEST_LINES and not dunder and module.path.name not in _SMALL:
            yield f"{module.at()}: {lines} lines, at least {_FEWEST_LINES}. Merge it, or give a reason here."


def _names(parsed: list[Module]) -> Iterator[str]:
    by_name = defaultdict(list)
    for module in parsed:
        by_name[module.path.stem].append(module)
        if _SAYS_NOTHING.match(module.path.stem):
            yield f"{module.at()}: the name does not say what is in the file."
    for name, same in by_name.items():
        if len(same) > 1 and name not in _SAME_EVERYWHERE:
            yield f"{name}.py is the name of several files: {', '.join(module.at() for module in same)}"


def _folders() -> Iterator[str]:
    for wheel in WHEELS:
        top = ROOT / "packages" / wheel / "src" / f"towerpack_{wheel}"
        entries = [path.name for path in top.iterdir() if path.name not in _UNCOUNTED]
        if len(entries) > _MOST_ENTRIES:
            yield f"{top.relative_to(ROOT)}: {len(entries)} entries, at most {_MOST_ENTRIES}."
        for folder in (path for path in top.rglob("*") if path.is_dir() and path.name != "__pycache__"):
            yield from _folder(folder)


def _folder(folder: Path) -> Iterator[str]:
    where, files = folder.relative_to(ROOT), list(folder.glob("*.py"))
    if len(files) > _MOST_FILES:
        yield f"{where}: {len(files)} files, at most {_MOST_FILES}."
    face = folder / "__init__.py"
    doc = ast.get_docstring(ast.parse(face.read_text(encoding="utf-8"))) if face.exists() else None
    if not doc:
        yield f"{where}: its __init__ has no docstring that says which concept the folder is."


def _mirrors() -> Iterator[str]:
    """Tests lie in the folder of what they test."""
    for wheel in WHEELS:
        sources = ROOT / "packages" / wheel / "src" / f"towerpack_{wheel}"
        tests = ROOT / "packages" / wheel / "tests"
        for folder in (path for path in tests.iterdir() if path.is_dir()):
            if list(folder.glob("test_*.py")) and not (sources / folder.name).is_dir():
                yield f"{folder.relative_to(ROOT)}: the wheel has no folder {folder.name!r}."


def _front_doors() -> Iterator[str]:
    files = list(test_files())
    private = [file for file in files if _PRIVATE_IMPORT.search(file.read_text(encoding="utf-8"))]
    if len(private) > _MOST_PRIVATE * len(files):
        yield f"{len(private)} of {len(files)} test files import a private module, at most a tenth may:"
        yield from (f"    {file.relative_to(ROOT)}" for file in private)


if __name__ == "__main__":
    main()
