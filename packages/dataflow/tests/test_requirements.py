"""The requirements in the metadata equal the imported packages."""

import ast
import importlib.metadata
import re
import sys
from pathlib import Path

import towerpack_dataflow

MODULES = {
    "opencv-python-headless": "cv2",
    "pillow": "PIL",
    "pyzmq": "zmq",
    "scikit-learn": "sklearn",
}  # where the module is called otherwise
SOURCES = Path(towerpack_dataflow.__file__).parent


def imported():
    """The top-level modules of others that are imported anywhere in the package, lazily too."""
    found = set()
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found.update(alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add(str(node.module).partition(".")[0])
    return found - set(sys.stdlib_module_names) - {"towerpack_dataflow"}


def declared():
    required = importlib.metadata.requires("towerpack-dataflow") or []
    names = [re.match(r"[\w.-]+", requirement).group() for requirement in required]
    return {MODULES.get(name, name) for name in names}


def test_each_requirement_is_used_and_each_use_is_required():
    assert imported() == declared()
