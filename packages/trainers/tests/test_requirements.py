"""Declared dependencies are imported, and imported packages are declared."""

import ast
import importlib.metadata
import re
import sys
from pathlib import Path

import towerpack_trainers

MODULES = {"pyzmq": "zmq"}  # modules with a different name
SOURCES = Path(towerpack_trainers.__file__).parent
WITH_ANOTHER = {"keras", "onnx"}  # come with tensorflow and tf2onnx


def imported():
    """The top-level modules of other packages that are imported anywhere in the package, even lazily."""
    found = set()
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found.update(alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add(str(node.module).partition(".")[0])
    return found - set(sys.stdlib_module_names) - {"towerpack_trainers"} - WITH_ANOTHER


def requirements():
    """The names that are required, of modules, and the extra of each; "" for none."""
    for requirement in importlib.metadata.requires("towerpack-trainers") or []:
        name = re.match(r"[\w.-]+", requirement).group()
        extra = re.search(r"extra == ['\"](\w+)", requirement)
        yield MODULES.get(name, name.replace("-", "_")), extra.group(1) if extra else ""


def test_each_requirement_is_used_and_each_use_is_required():
    declared = {name for name, extra in requirements() if extra not in {"rl", "all"}}
    assert imported() == declared


def test_the_extra_of_agents_brings_environments_and_messages():
    [requirement] = [name for name, extra in requirements() if extra == "rl"]
    assert requirement == "towerpack_dataflow"
    [text] = [each for each in importlib.metadata.requires("towerpack-trainers") if "extra == 'rl'" in each]
    assert text.startswith("towerpack-dataflow[gym,remote]")
