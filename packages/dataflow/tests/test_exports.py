import ast
import subprocess
import sys
import types
from pathlib import Path

import pytest

import towerpack_dataflow
import towerpack_dataflow.augment
import towerpack_dataflow.batch
import towerpack_dataflow.datasets
import towerpack_dataflow.envs
import towerpack_dataflow.envs.simulators
import towerpack_dataflow.formats.encoding
import towerpack_dataflow.interop.arrays
import towerpack_dataflow.remote
import towerpack_dataflow.replay
import towerpack_dataflow.runtime.pool
import towerpack_dataflow.runtime.transport
import towerpack_dataflow.storage
import towerpack_dataflow.testing


@pytest.mark.parametrize(
    "module",
    [
        towerpack_dataflow,
        towerpack_dataflow.augment,
        towerpack_dataflow.datasets,
        towerpack_dataflow.envs,
        towerpack_dataflow.envs.simulators,
        towerpack_dataflow.interop.arrays,
        towerpack_dataflow.remote,
        towerpack_dataflow.replay,
        towerpack_dataflow.testing,
    ],
)
def test_all_is_sorted_and_every_name_is_documented(module):
    assert module.__all__ == sorted(module.__all__)
    for name in module.__all__:
        assert getattr(module, name).__doc__, name


@pytest.mark.parametrize(
    "package",
    [
        towerpack_dataflow,
        towerpack_dataflow.batch,
        towerpack_dataflow.formats.encoding,
        towerpack_dataflow.runtime.pool,
        towerpack_dataflow.runtime.transport,
        towerpack_dataflow.storage,
    ],
)
def test_names_that_are_imported_at_their_first_use_are_those_of_the_stub(package):
    stub = Path(package.__file__).with_suffix(".pyi").read_text()
    (listed,) = (node.value for node in ast.parse(stub).body if isinstance(node, ast.Assign))
    assert sorted(package.__all__) == sorted(ast.literal_eval(listed))
    assert set(package.__all__) <= set(dir(package))
    for name in package.__all__:
        assert getattr(package, name) is vars(package)[name]
    with pytest.raises(AttributeError, match=f"{package.__name__!r} has no attribute 'Missing'"):
        package.Missing  # noqa: B018


def test_a_program_imports_the_modules_that_it_uses():
    script = (
        "import sys, towerpack_dataflow as flows\n"
        "def loaded(): return [name for name in sys.modules if name.startswith('towerpack_dataflow.')]\n"
        "few = len(loaded()); flows.BatchData, flows.DataFromArrays\n"
        "some = len(loaded()); flows.augment.Flip, flows.MultiProcessRunner\n"
        "print(few < 5, some < 60 < len(loaded()), 'towerpack_dataflow.formats.tar' in loaded())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "True True False\n", done.stdout


@pytest.mark.slow
def test_threads_may_use_names_for_the_first_time_together():
    """Packages import modules of each other, and Python reports the imports of two threads as a deadlock."""
    script = """
import random, sys, threading
import towerpack_dataflow as flows

begin, errors = threading.Barrier(12), []
def use(seed):
    names = random.Random(seed).sample(flows.__all__, len(flows.__all__))
    begin.wait()
    for name in names:
        try:
            getattr(flows, name)
        except Exception as error:
            errors.append(f"{name}: {error!r}")

sys.setswitchinterval(1e-5)
threads = [threading.Thread(target=use, args=(seed,)) for seed in range(12)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(errors)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n", done.stdout


@pytest.mark.parametrize(
    "module",
    [
        towerpack_dataflow.augment,
        towerpack_dataflow.datasets,
        towerpack_dataflow.envs,
        towerpack_dataflow.envs.simulators,
        towerpack_dataflow.remote,
        towerpack_dataflow.replay,
    ],
)
def test_all_is_exactly_the_public_names(module):
    public = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert public == set(module.__all__)


def test_public_methods_are_documented():
    for name in towerpack_dataflow.__all__:
        cls = getattr(towerpack_dataflow, name)
        for method, value in vars(cls).items():
            if not method.startswith("_") and callable(value):
                assert value.__doc__, f"{name}.{method}"


@pytest.mark.slow
def test_import_brings_nothing_that_is_not_used_yet():
    code = (
        "import sys, numpy; before = set(sys.modules);"
        "import towerpack_dataflow, towerpack_dataflow.datasets;"
        "print(*sorted({name.partition('.')[0] for name in set(sys.modules) - before}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"tensorflow", "zmq", "msgpack", "cloudpickle", "sklearn", "attr", "attrs", "multiprocessing"}
    heavy |= {"http", "ssl", "email", "decimal"}
    assert not heavy & set(done.stdout.split())
    assert done.stderr == ""


def imported_modules(path, top):
    """The modules of the package from which a file imports names, as parts of their paths."""
    folder = path.parent.relative_to(top).parts
    return [
        (*folder[: len(folder) + 1 - node.level], *node.module.split("."))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.level and node.module
    ]


def test_threads_that_import_a_package_and_a_module_of_it_do_not_wait_for_each_other():
    # Python locks `a.b` before `a`, and `a` waits for `a.b` if it imports it; commands have one thread. The
    # test may go when all supported releases have the fix of github.com/python/cpython/issues/83065.
    top = Path(towerpack_dataflow.__file__).parent
    packages = {
        path.parent.relative_to(top).parts: imported_modules(path, top) for path in top.rglob("*/__init__.py")
    }
    eager = [
        package
        for package, modules in packages.items()
        if any(module[: len(package)] == package for module in modules)
    ]
    assert ("augment",) in eager
    wrong = [
        (str(path.relative_to(top)), module)
        for path in [*top.rglob("*.py"), *top.rglob("*.pyi")]
        for module in imported_modules(path, top)
        for package in eager
        if module[: len(package)] == package != module
        and not path.is_relative_to(top.joinpath(*package))
        and "cli" not in path.parts
        and path.name != "__main__.py"
    ]
    assert not wrong
