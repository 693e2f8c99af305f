"""Everything that checks, builds, runs and measures Towerpack. `nox` alone runs what a change must pass."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nox
from uv import find_uv_bin

ROOT = Path(__file__).parent
DIST = ROOT / "dist"
WHEELS = ("dataflow", "layers", "inputsource", "callbacks", "trainers", "compat")
# The versions of all tools that the checks were seen to pass with; `nox -s pin` moves them, on purpose.
PINNED = ROOT / "tools.txt"
PUBLISHES = ".github/workflows/release.yml"
GROUPS = nox.project.load_toml(ROOT / "pyproject.toml")["dependency-groups"]
SOURCES = [f"packages/{wheel}/src/towerpack_{wheel}" for wheel in WHEELS]

# Extras that a wheel's own tests need.
WITH_EXTRAS = {
    "dataflow": "dataflow[datasets,fsspec,gym,hdf5,image,lmdb,parquet,pillow,remote,s3,tfrecord,viz]",
    "layers": "layers[slim]",
    "inputsource": "inputsource[remote]",
    "callbacks": "callbacks[optuna,plot]",
    "trainers": "trainers[rl]",
    "compat": "compat[full,migrate]",
}

# The flows that documentation and benchmarks have.
DATA = WITH_EXTRAS["dataflow"]

# The Python of this nox is what the checks run with. These run a part of them, where they are installed.
OTHER_PYTHONS = ("3.12", "3.13")
# Without a global lock; uv finds them.
FREE_THREADED = ("3.13t", "3.14t")

# What benchmarks/dataflow.py compares with; Tensorpack 0.11 comes without its dependencies, which these are.
TORCH = "torch==2.13.0"
LOADERS = (TORCH, "grain", "spdl-core", "spdl-io", "opencv-python-headless")
OF_TENSORPACK = ("msgpack", "msgpack-numpy", "psutil", "pyzmq", "six", "tabulate", "termcolor", "tqdm")
LOADERS += ("scikit-image", *OF_TENSORPACK)

# What benchmarks/images.py compares with, beside TensorFlow; FFmpeg's libraries, which spdl-io looks for, are
# the system's. A torchvision from PyPI does not load beside a torch without CUDA, and is then left out.
OF_IMAGES = (TORCH, "torchvision==0.28.0", "albumentations==2.0.8", "spdl-core", "spdl-io")
OF_IMAGES += ("opencv-python-headless>=4.10", "psutil", "scikit-image")

# What benchmarks/rl.py and envs.py compare with, and the environments of agents that gymnasium has not.
GAMES = ("ale-py==0.12.1", "minatar==1.0.15", "opencv-python-headless")
OF_AGENTS = (TORCH, "stable-baselines3==2.9.2", "envpool==1.2.5", *GAMES)

# TensorFlow of the day.
NIGHTLY = "tf-nightly"

# What metrics of generated samples are compared with.
OF_SAMPLES = (TORCH, "torch-fidelity==0.4.0", "prdc==0.2", "scipy")

# Needed by TensorFlow as well as by what the layers are compared with; TensorFlow decides on the versions.
OF_TENSORFLOW = (
    "absl-py",
    "flatbuffers",
    "h5py",
    "keras",
    "ml-dtypes",
    "namex",
    "opt-einsum",
    "optree",
    "protobuf",
    "scipy",
)

BENCHMARKS = sorted(path.stem for path in (ROOT / "benchmarks").glob("[a-z]*.py"))
# Of agents: what they act in, what they remember, and how they learn. `-- rl` runs all of them.
OF_RL = ("envs", "replay", "rl")
# Their peers do not get along with those of the others.
APART = ("dataflow", "images", "rl")
# What ours need to be measured for a moment, without peers.
SMOKE_TOOLS = ("mpich", "psutil", "opencv-python-headless", "scikit-image")
# Of many processes that watch each other, some fall silent too long beside other work.
ALONE_TO_SHOW = {"many_processes"}
# These take longest even for a moment.
LONG_TO_SHOW = ("replication_hosts", "digits", "layers", "images", "startup", "replication")

# Which wheels are installed together, and the integration tests that show them at work.
COMBINATIONS = {
    "dataflow": (["dataflow[datasets]"], ["test_dataflow_alone.py"]),
    "data": (
        ["dataflow[datasets,image,lmdb,s3]"],
        ["test_data_examples.py", "test_sequence_data.py"],
    ),
    "input": (["dataflow[datasets]", "inputsource"], ["test_dataflow_inputsource.py", "test_zero_copy.py"]),
    "layers": (["layers", "dataflow[datasets]"], ["test_layers_alone.py"]),
    "callbacks": (["callbacks"], ["test_callbacks_alone.py"]),
    "images": (
        ["dataflow[datasets,image]", "trainers"],
        [
            "test_image_recipes.py",
            "test_image_networks.py",
            "test_detection_example.py",
            "test_motion_and_detail.py",
        ],
    ),
    "full": (
        ["dataflow[datasets]", "layers[slim]", "trainers[rl]", "compat[full,migrate]"],
        [
            "test_libraries_in_towers.py",
            "test_own_graph.py",
            "test_full_stack.py",
            "test_traces.py",
            "test_bad_input.py",
            "test_examples.py",
            "test_image_examples.py",
            "test_gan_callbacks.py",
            "test_gan_examples.py",
            "test_gan_picture_examples.py",
            "test_rl_examples.py",
            "test_simulators.py",
            "test_golden_checkpoints.py",
            "test_migrated_scripts.py",
        ],
    ),
}

# The tests of exact data whose number of examples TOWERPACK_EXAMPLES raises.
PROPERTIES = {
    "dataflow": [
        "augment/test_exact_masks.py",
        "batch/test_exact_batches.py",
        "batch/test_foreign_arrays.py",
        "formats",
        "remote/test_remote_data.py",
        "replay/test_kept_values.py",
        "runtime/test_exact_transport.py",
        "runtime/test_parallel_trees.py",
        "sources/test_from_arrays.py",
    ],
    "trainers": ["base/test_keras_differences.py", "rl/test_spaces.py"],
}

# The tests that run each script of examples/ with small settings.
EXAMPLE_TESTS = (
    "test_examples.py",
    "test_image_examples.py",
    "test_image_recipes.py",
    "test_image_networks.py",
    "test_detection_example.py",
    "test_motion_and_detail.py",
    "test_picture_trainings.py",
    "test_sequence_data.py",
    "test_sequence_examples.py",
    "test_network_gallery.py",
    "test_gan_examples.py",
    "test_gan_picture_examples.py",
    "test_rl_examples.py",
    "test_replication.py::test_the_example_trains_on_two_virtual_devices",
    "test_replication.py::test_a_loop_of_ones_own",
    "test_distributed.py::test_the_example",
)

# pyenv's commands exist for all its Pythons, and start those alone that this names.
if shutil.which("pyenv"):
    listed = subprocess.run(
        ["pyenv", "versions", "--bare"], capture_output=True, text=True, check=True
    ).stdout
    chosen = os.environ.get("PYENV_VERSION", "").split(":")
    os.environ["PYENV_VERSION"] = ":".join(filter(None, [*chosen, *reversed(listed.split())]))

nox.needs_version = ">=2025.2"
nox.options.default_venv_backend = "uv"
nox.options.download_python = "never"
# A missing one of OTHER_PYTHONS is reported as a skipped session.
nox.options.error_on_missing_interpreters = False
nox.options.reuse_existing_virtualenvs = False
# What failed is then the last thing printed; --no-stop-on-first-error shows the rest too.
nox.options.stop_on_first_error = True
nox.options.sessions = ["lint", "wheels", "isolated", "integration", "promises", "ray", "pythons", "docs"]


@nox.session
def lint(session: nox.Session) -> None:
    """Style, types, arrows between and inside the wheels, folders, dialect, repeated code, public names."""
    # Editable, since these tools read the sources; what is missing from a wheel shows in `isolated`.
    editable = [arg for wheel in WHEELS for arg in ("-e", str(ROOT / "packages" / wheel))]
    session.install(*pinned("lint", "release"), *editable)
    repeated = ["--disable=all", "--enable=duplicate-code", "--min-similarity-lines=10"]
    run_side_by_side(
        session,
        ["mypy"],
        ["pylint", *repeated, *SOURCES],
        ["pytest", "-o", "pythonpath=checks .", "checks", "release"],
        ["python", "-m", "release.api"],
        ["lint-imports"],
        ["python", "checks/layout.py"],
        ["python", "checks/dialect.py"],
        ["python", "checks/pages.py"],
        ["python", "checks/links.py"],
        ["ruff", "check"],
        ["ruff", "format", "--check"],
    )


@nox.session
def api(session: nox.Session) -> None:
    """Compares the public names with those of the last release, as `lint` does; `-- --write` keeps them."""
    session.install(*pinned("release"))
    session.run("python", "-m", "release.api", *session.posargs)


@nox.session
def wheels(session: nox.Session) -> None:
    """Builds sdists and wheels, and looks inside the wheels."""
    build(session)
    session.install(*pinned("build"))
    for wheel in WHEELS:
        session.run("check-wheel-contents", "--toplevel", f"towerpack_{wheel}", str(built(wheel)))
        check_contents(session, wheel)


@nox.session
@nox.parametrize("wheel", WHEELS, ids=WHEELS)
def isolated(session: nox.Session, wheel: str) -> None:
    """Tests one built wheel where nothing else is installed but what its metadata asks for."""
    groups = ("test", "stores") if wheel == "dataflow" else ("test",)
    install(session, [WITH_EXTRAS.get(wheel, wheel)], *pinned(*groups))
    run_copied_tests(session, ROOT / "packages" / wheel / "tests", spread="loadfile")


@nox.session
@nox.parametrize("combination", list(COMBINATIONS), ids=list(COMBINATIONS))
def integration(session: nox.Session, combination: str) -> None:
    """Composes installed wheels on real data; each combination in an environment of its own."""
    wanted, files = COMBINATIONS[combination]
    stores = ["stores"] if combination == "data" else []  # a server for its example
    install(session, wanted, *pinned("test", "examples", *stores))
    # The others take less than it to start twice.
    spread = "worksteal" if combination in {"full", "images"} else None
    run_copied_tests(session, ROOT / "integration_tests", files, also=[ROOT / "examples"], spread=spread)


@nox.session
def promises(session: nox.Session) -> None:
    """Shows in small what README promises: kills, processes, towers, benchmarks."""
    install(session, [DATA, "trainers[mpi]"], *pinned("test"), *SMOKE_TOOLS)
    few = "test_distributed.py::test_two_processes_one_killed"
    files = ["test_resume.py", "test_replication.py", few]
    run_copied_tests(session, ROOT / "integration_tests", files, also=[ROOT / "examples"], spread="load")
    session.chdir(ROOT)
    show(session, BENCHMARKS)


@nox.session(venv_backend="venv")
def torch(session: nox.Session) -> None:
    """Puts flows into PyTorch's DataLoader and JAX. Not among the usual sessions: PyTorch can be several GB.

    By pip, which PIP_FIND_LINKS may lead to a build without CUDA.
    """
    build(session)
    session.install(
        f"towerpack-dataflow[datasets,torch] @ {built('dataflow').as_uri()}",
        "jax",
        "torchdata",
        *pinned("test"),
    )
    files = ["test_torch_interop.py", "test_data_alone_page.py"]
    run_copied_tests(session, ROOT / "integration_tests", files, also=[ROOT / "docs" / "tutorials"])


@nox.session(venv_backend="venv")
def oracle(session: nox.Session) -> None:
    """Compares every layer with ONNX, PyTorch and Keras; `-- --write docs/oracles.md` keeps the table.

    Not among the usual sessions: PyTorch can be several GB. By pip, which PIP_FIND_LINKS may lead to a build
    without CUDA.
    """
    build(session)
    session.install(f"towerpack-layers @ {built('layers').as_uri()}", TORCH, *pinned("oracle"))
    place = Path(session.create_tmp()) / "numbers"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    session.env["TF_CPP_MIN_LOG_LEVEL"] = "2"
    # TensorFlow in one process, and the others in another: they do not get along in one.
    session.run("python", "oracles/onnx_nodes.py", str(place))
    session.run("python", "oracles/compute.py", str(place))
    session.run("python", "oracles/compare.py", str(place), *session.posargs)


@nox.session(venv_backend="venv")
def metrics(session: nox.Session) -> None:
    """Compares metrics of generated samples with torch-fidelity, prdc, scipy; `-- --write FILE` keeps them.

    Not among the usual sessions: PyTorch can be several GB. By pip, which PIP_FIND_LINKS may lead to a build
    without CUDA. Without TensorFlow, which these metrics do not need.
    """
    build(session)
    session.install(*OF_SAMPLES, "lazy-loader")
    session.install("--no-deps", str(built("callbacks")))
    session.run("python", "oracles/sample_metrics.py", *session.posargs)


@nox.session
def trackers(session: nox.Session) -> None:
    """Records to TensorBoard, W&B, MLflow and Comet, without network. Not usual: their clients are large."""
    install(session, ["callbacks[comet,mlflow,wandb]"], *pinned("test"), "tensorboard")
    run_copied_tests(session, ROOT / "integration_tests", ["test_trackers.py"])


@nox.session
def runtimes(session: nox.Session) -> None:
    """Runs exported models in ONNX Runtime and LiteRT. Not usual: converters and runtimes are large."""
    install(session, ["dataflow[datasets]", "trainers[onnx]"], *pinned("test", "runtimes"))
    run_copied_tests(
        session, ROOT / "integration_tests", ["test_exported_models.py"], also=[ROOT / "examples"]
    )


@nox.session
def browser(session: nox.Session) -> None:
    """Looks at the page of curves in headless Chromium, Debian's, which it installs if it is not there.

    `nox -s site browser` looks at pages of the site, too, and leaves pictures of them in `dist/pictures`.
    """
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        session.run("apt-get", "update", "--quiet", external=True)
        packages = ["chromium", "chromium-driver"]
        session.run("apt-get", "install", "--yes", "--no-install-recommends", *packages, external=True)
    install(session, ["callbacks"], *pinned("test", "browser"))
    session.env.update(TOWERPACK_SITE=str(DIST / "site"), TOWERPACK_PICTURES=str(DIST / "pictures"))
    files = ["test_plot_in_browser.py", "test_site_in_browser.py"]
    run_copied_tests(session, ROOT / "integration_tests", files)


@nox.session
def ray(session: nox.Session) -> None:
    """Runs flows and trains on a local Ray cluster."""
    install(session, ["dataflow[ray]", "trainers[ray]"], *pinned("test"))
    # Not where nox puts temporary files: Ray's workers refuse to start with a directory in their environment.
    session.env["RAY_TMPDIR"] = tempfile.gettempdir()
    run_copied_tests(session, ROOT / "packages" / "dataflow" / "tests", ["runtime/test_ray_runner.py"])
    run_copied_tests(session, ROOT / "integration_tests", ["test_distributed_ray.py"])


@nox.session
def towers(session: nox.Session) -> None:
    """Trains one model on several virtual devices, in every way. Not among the usual sessions: minutes."""
    install(session, COMBINATIONS["full"][0], *pinned("test"))
    run_copied_tests(session, ROOT / "integration_tests", ["test_replication.py"], also=[ROOT / "examples"])


@nox.session(python="3.11")
def lowest(session: nox.Session) -> None:
    """Tests the wheels on the oldest releases that their metadata admit. Not usual: minutes."""
    build(session)
    projects = [arg for wheel in WHEELS for arg in ("-r", f"packages/{wheel}/pyproject.toml")]
    lists = [each.rstrip("]").partition("[")[2].split(",") for each in WITH_EXTRAS.values()]
    asked = {name for names in lists for name in names}
    extras = [arg for name in sorted(asked) for arg in ("--extra", name)]
    # Of the dependencies of ours alone: what those need is not ours to know.
    # A server of the tests does not bear the dateutil that matplotlib would bring.
    dateutil = "python-dateutil>=2.9,<3"
    session.install("--resolution", "lowest-direct", *built_alone(session), *projects, *extras, dateutil)
    session.install("--no-deps", *(str(built(wheel)) for wheel in WHEELS))
    session.install(*GROUPS["test"], *GROUPS["stores"], *as_installed(session))
    for wheel in WHEELS:
        run_copied_tests(session, ROOT / "packages" / wheel / "tests", spread="loadfile")
    run_copied_tests(session, ROOT / "integration_tests", COMBINATIONS["full"][1], also=[ROOT / "examples"])


@nox.session
def newest(session: nox.Session) -> None:
    """Tests the wheels beside TensorFlow's nightly build, or else pre-releases of all. Not usual: minutes."""
    install(session, [*(WITH_EXTRAS.get(wheel, wheel) for wheel in WHEELS)], *pinned("test", "stores"))
    upgrade = ["uv", "pip", "install", "--prerelease", "allow", "--upgrade"]
    # It has another name, by which the wheels do not require it.
    found = session.run(*upgrade, "--dry-run", NIGHTLY, success_codes=[0, 1], external=True, silent=True)
    if "No solution found" in found:
        session.run(*upgrade, "tensorflow", "keras", "numpy", external=True)
    else:
        session.run("uv", "pip", "uninstall", "tensorflow", external=True)
        session.run(*upgrade, NIGHTLY, external=True)
    session.run("python", "-c", "import tensorflow as tf; print(tf.__version__)")
    for wheel in WHEELS:
        run_copied_tests(session, ROOT / "packages" / wheel / "tests", spread="loadfile")
    run_copied_tests(session, ROOT / "integration_tests", COMBINATIONS["full"][1], also=[ROOT / "examples"])


@nox.session
@nox.parametrize("wheel", WHEELS, ids=WHEELS)
def coverage(session: nox.Session, wheel: str) -> None:
    """Prints how many branches of a wheel its own tests take, in all processes; under 95 % fails. Minutes."""
    install(session, [WITH_EXTRAS.get(wheel, wheel)], *pinned("test", "stores", "coverage"))
    session.env["COVERAGE_FILE"] = str(Path(session.create_tmp()).resolve() / "coverage" / "data")
    shutil.rmtree(Path(session.env["COVERAGE_FILE"]).parent, ignore_errors=True)
    by = ["coverage", "run", "--rcfile", str(ROOT / "pyproject.toml"), "--source", f"towerpack_{wheel}", "-m"]
    run_copied_tests(session, ROOT / "packages" / wheel / "tests", spread="loadfile", by=by)
    session.chdir(ROOT)
    session.run("coverage", "combine", "--quiet")
    session.run("coverage", "report", "--fail-under", "95")


@nox.session
def mutants(session: nox.Session) -> None:
    """Changes the pure cores in each small way, and counts how often a test fails; `-- periods` one."""
    install(session, ["dataflow", "callbacks"], *pinned("mutants"))
    session.run("uv", "pip", "uninstall", *(f"towerpack-{wheel}" for wheel in WHEELS), external=True)
    session.run("pytest", "-o", "pythonpath=.", "mutants")
    session.run("python", "-m", "mutants", *session.posargs, env={"TF_CPP_MIN_LOG_LEVEL": "2"})


@nox.session(python=OTHER_PYTHONS)
def pythons(session: nox.Session) -> None:
    """Trains, is killed and resumes with another Python; `-s isolated -P 3.13` tests the wheels."""
    install(session, ["dataflow[datasets]", "callbacks[plot]", "trainers"], *pinned("test"))
    files = ["test_full_stack.py"]
    run_copied_tests(session, ROOT / "integration_tests", files, also=[ROOT / "examples"], spread="worksteal")


@nox.session(name="free-threaded", venv_backend="none")
@nox.parametrize("version", FREE_THREADED)
def free_threaded(session: nox.Session, version: str) -> None:
    """Tests flows where Python has no global lock, so that threads are the workers; not usual."""
    uv = find_uv_bin()
    found = subprocess.run([uv, "python", "find", "--no-python-downloads", version], capture_output=True)
    if found.returncode:
        session.skip(f"not run: no interpreter of Python {version}")
    build(session)
    place = Path(session.create_tmp()).resolve() / version
    python = str(place / "bin" / "python")
    session.run(uv, "venv", "--clear", "--python", version, str(place), external=True)
    # The newest that have wheels for such an interpreter: what is pinned may have none.
    wanted = [f"towerpack-dataflow @ {built('dataflow').as_uri()}", *GROUPS["test"]]
    binary = ["--only-binary", ":all:"]
    session.run(uv, "pip", "install", "--python", python, *binary, *wanted, external=True)
    check = "import sys; assert not sys._is_gil_enabled(), 'this interpreter has its lock'"
    session.run(python, "-c", check, external=True)
    session.chdir(ROOT / "packages" / "dataflow" / "tests")
    session.run(python, "-m", "pytest", "flow", "operators", "runtime", external=True)


@nox.session
def release(session: nox.Session) -> None:
    """Makes a release, `-- dataflow 0.2.0`: changelog, files, SBOM, a commit and a tag; it pushes nothing."""
    make_release(session, *session.posargs)


@nox.session(name="release-check")
def release_check(session: nox.Session) -> None:
    """Tries the release of all wheels in their present versions, or of `-- dataflow`; no commit, no tag."""
    make_release(session, "--dry", *session.posargs)


@nox.session(venv_backend="none")
def pin(session: nox.Session) -> None:
    """Writes the newest versions of all tools into tools.txt."""
    groups = [arg for group in GROUPS for arg in ("--group", group)]
    # What the wheels need themselves stays open, for the newest and for the lowest.
    names = ("attrs", "numpy", "tqdm", *OF_TENSORFLOW)
    kept_open = [arg for name in names for arg in ("--no-emit-package", name)]
    form = ["--universal", "--python-version", "3.11", "--no-header", "--no-annotate", "--no-emit-index-url"]
    command = ["pip", "compile", "--quiet", "--upgrade", *form, *kept_open, *groups, "-o", str(PINNED)]
    session.run(find_uv_bin(), *command, external=True)


@nox.session
def hosts(session: nox.Session) -> None:
    """Trains in several processes, and takes some away. Not among the usual sessions: minutes."""
    # mpi4py looks for the machine's MPI; here, one that installs as a package.
    install(session, ["dataflow[datasets]", "trainers[mpi]"], *pinned("test"), "mpich")
    files = ["test_distributed.py", "test_distributed_trainer.py", "test_golden_two_processes.py"]
    run_copied_tests(session, ROOT / "integration_tests", files, also=[ROOT / "examples"])


@nox.session
def kills(session: nox.Session) -> None:
    """Kills a training 25 times at random moments and resumes it. Not among the usual sessions: minutes."""
    install(session, ["dataflow[datasets,gym]", "layers[slim]", "trainers"], *pinned("test"))
    session.env["KILLS"] = "25"
    run_copied_tests(session, ROOT / "integration_tests", ["test_resume.py"])


@nox.session
def migrated(session: nox.Session) -> None:
    """Trains what `migrate` makes of scripts for Tensorpack. Not among the usual sessions: minutes."""
    install(session, ["dataflow[datasets,image]", "compat[full,migrate]"], *pinned("test"))
    files = ["test_migrated_scripts.py", "test_migrated_trainings.py"]
    run_copied_tests(session, ROOT / "integration_tests", files)


@nox.session
def soak(session: nox.Session) -> None:
    """Reads a million datapoints through nested workers. Not among the usual sessions: minutes."""
    install(session, [WITH_EXTRAS["dataflow"]], *pinned("test"))
    session.env["SOAK"] = "1000000"
    run_copied_tests(session, ROOT / "packages" / "dataflow" / "tests", ["runtime/test_soak.py"])


@nox.session
def exact(session: nox.Session) -> None:
    """Tries with many examples that data come back exactly, or are refused; `-- 2000` that many. Not usual.

    The properties of readers, writers, batches, memories and workers, damage of each format, and the
    differences from pyarrow, h5py, gymnasium and Keras. Those from PyTorch are in the session `torch`.
    """
    install(session, [DATA, "trainers[rl]"], *pinned("test", "stores"))
    session.env["TOWERPACK_EXAMPLES"] = session.posargs.pop(0) if session.posargs else "300"
    for wheel, files in PROPERTIES.items():
        # A property with many examples takes longer than a test may elsewhere.
        session.posargs[:] = ["--timeout", "3000"]
        run_copied_tests(session, ROOT / "packages" / wheel / "tests", files, spread="worksteal")


@nox.session
def docs(session: nox.Session) -> None:
    """Runs every block of the READMEs and the documentation, their tests, and docstrings' examples."""
    install(session, [DATA, "layers[slim]", *WHEELS[2:5], "compat[full,migrate]"], *pinned("docs"))
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
    pages += sorted((ROOT / "docs" / "tutorials").glob("*.md"))
    pages += [ROOT / "packages" / wheel / "README.md" for wheel in WHEELS]
    # Those of compat change the process that imports them.
    packages = [f"towerpack_{wheel}" for wheel in WHEELS if wheel != "compat"]
    # From elsewhere: blocks that train write their logs where they are run.
    scratch = Path(session.create_tmp())
    session.chdir(scratch)
    config = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), "-p", "no:cacheprovider"]
    pages.append(ROOT / "docs" / "tests")
    blocks = ["-p", "blocks", *map(str, pages)]
    # The example in there runs in `torch`.
    unseen = ["--ignore-glob", "/*/interop/torch.py"]
    examples = ["--doctest-modules", *unseen, "--pyargs", *packages]
    commands = (["pytest", *config, *blocks], ["pytest", *config, *examples])
    run_side_by_side(session, *commands, env={"PYTHONPATH": str(ROOT / "docs" / "tests")}, silent=True)


@nox.session
def site(session: nox.Session) -> None:
    """Builds the site of the documentation and of all docstrings; a warning fails. Not usual: minutes.

    `-- --external` asks instead, over the network, whether addresses in pages and docstrings answer.
    """
    if "--external" in session.posargs:
        session.run("python", "checks/external_links.py")
        return
    install(session, [DATA, "layers[slim]", *WHEELS[2:5], "compat[full,migrate]"], *pinned("site"))
    pages = Path(session.create_tmp()) / "pages"
    shutil.rmtree(pages, ignore_errors=True)
    shutil.copytree(ROOT / "docs", pages, ignore=shutil.ignore_patterns("site", "tests"))
    shutil.copytree(ROOT / "docs" / "site", pages, dirs_exist_ok=True)
    (pages / "wheels").mkdir()
    for path, name in json.loads((pages / "elsewhere.json").read_text(encoding="utf-8")).items():
        shutil.copy(ROOT / path, pages / f"{name}.md")
    command = ["sphinx-build", "--fail-on-warning", "--keep-going", "--quiet", "--jobs", "2"]
    session.run(*command, str(pages), str(DIST / "site"), env={"TF_CPP_MIN_LOG_LEVEL": "3"})
    session.log(f"the site is in {DIST / 'site' / 'index.html'}")


@nox.session
def demo(session: nox.Session) -> None:
    """Trains LeNet on handwritten digits, through the five installed wheels."""
    install(session, ["dataflow[datasets]", "trainers"])
    session.run("python", "examples/digits_lenet.py", *session.posargs, env={"TF_CPP_MIN_LOG_LEVEL": "2"})


@nox.session
def examples(session: nox.Session) -> None:
    """Runs every script of examples/ with small settings. Not among the usual sessions: minutes."""
    install(session, [*COMBINATIONS["full"][0], "dataflow[image,lmdb]"], *pinned("test", "examples"))
    run_copied_tests(session, ROOT / "integration_tests", list(EXAMPLE_TESTS), also=[ROOT / "examples"])


@nox.session
def gan(session: nox.Session) -> None:
    """Trains the adversarial networks of examples/gan/ and prints their figures; `-- dcgan` one. Minutes."""
    install(session, ["dataflow[datasets]", "trainers"], *pinned("examples"))
    script = ROOT / "examples" / "gan" / "table.py"
    session.chdir(session.create_tmp())
    session.run("python", str(script), *session.posargs, env={"TF_CPP_MIN_LOG_LEVEL": "2"})


@nox.session
def rl(session: nox.Session) -> None:
    """Trains the agents of examples/rl/ and prints their figures; `-- ppo/CartPole-v1` one. Minutes."""
    train_agents(session, *session.posargs)


@nox.session
def atari(session: nox.Session) -> None:
    """Trains an agent to play Pong, and prints its figure. Not usual: the better part of an hour."""
    train_agents(session, "--atari", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Measures against peers and limits; `-- NAME` runs one alone, `-- --smoke` all for a moment."""
    smoke = ["--smoke"] if "--smoke" in session.posargs else []
    names = [name for name in session.posargs if name in BENCHMARKS] or [*BENCHMARKS]
    rest = [arg for arg in session.posargs if arg not in (*BENCHMARKS, *smoke)]
    if smoke:
        install(session, [DATA, "trainers[mpi]"], *SMOKE_TOOLS)
        show(session, names)
        return
    apart = [name for name in APART if name in names]
    names = [name for name in names if name not in (*apart, *(OF_RL if "rl" in apart else ()))]
    names = names or [apart.pop()]
    if apart:
        session.notify("bench", apart)
    if names == ["dataflow"]:  # with its peers, which do not get along with TensorFlow
        install(session, ["dataflow"], "pip")
        # By pip, which PIP_FIND_LINKS may lead to a torch without CUDA.
        session.run("python", "-m", "pip", "install", "--quiet", *LOADERS)
        session.run("python", "-m", "pip", "install", "--quiet", "--no-deps", "tensorpack==0.11")
    elif names == ["rl"]:  # with its peers, among them PyTorch, which is a process of its own
        names = [*OF_RL]
        install(session, ["dataflow[gym]", "trainers"], "pip")
        session.run("python", "-m", "pip", "install", "--quiet", *OF_AGENTS)
    elif names == ["images"]:  # with its peers, which get along with TensorFlow in processes of their own
        install(session, [DATA, "trainers"], "pip")
        session.run("python", "-m", "pip", "install", "--quiet", *OF_IMAGES)
    else:  # beside Tensorpack, on Keras 2
        install(session, [DATA, "trainers[mpi]"], "mpich", "tf_keras", *OF_TENSORPACK)
        session.install("--no-deps", "tensorpack==0.11")
    measure(session, names, rest)


# ---- how the sessions do it


def train_agents(session: nox.Session, *arguments: str) -> None:
    """Runs rows of the table of agents."""
    install(session, ["trainers[rl]"], *GAMES)
    script = ROOT / "examples" / "rl" / "table.py"
    session.chdir(session.create_tmp())
    session.run("python", str(script), *arguments, env={"TF_CPP_MIN_LOG_LEVEL": "2"})


def make_release(session: nox.Session, *arguments: str) -> None:
    """Lets `release/` do it, which is tested."""
    session.install(*pinned("release", "distribute"))
    # What publishes cannot run here; its form and its known weaknesses can be looked at.
    session.run("check-jsonschema", "--quiet", "--builtin-schema", "vendor.github-workflows", PUBLISHES)
    session.run("zizmor", "--quiet", "--offline", "--persona=auditor", PUBLISHES)
    # uv makes environments of its own for builds, and one for the list of what an installation consists of.
    env = {"UV_PYTHON": None, "VIRTUAL_ENV": None, "PYTHONDONTWRITEBYTECODE": None}
    session.run("python", "-m", "release.make", *arguments, env=env)


@functools.cache
def _build() -> None:
    # The site and its pictures stay, which take minutes to make.
    for path in DIST.glob("towerpack_*"):
        path.unlink()


def build(session: nox.Session) -> None:
    """Builds all wheels once per run of nox."""
    if _build.cache_info().currsize:
        return
    _build()
    # Without the session's own settings, or uv would fill its environment instead of hatch's.
    env = {"UV_PYTHON": None, "VIRTUAL_ENV": None}
    hatch = ["tool", "run", "--constraints", str(PINNED), "hatch"]
    session.run(find_uv_bin(), *hatch, "build", "--all", external=True, env=env)


def pinned(*groups: str) -> list[str]:
    """The tools of these groups of pyproject.toml, and the file that says which versions."""
    return ["-c", str(PINNED), *(tool for group in groups for tool in GROUPS[group])]


def built(wheel: str) -> Path:
    """The wheel file just built."""
    (path,) = DIST.glob(f"towerpack_{wheel}-*.whl")
    return path


def built_alone(session: nox.Session) -> list[str]:
    """Constraints that keep any index from answering for one of the built wheels."""
    constraints = Path(session.create_tmp()) / "built-wheels.txt"
    constraints.write_text("".join(f"towerpack-{wheel} @ {built(wheel).as_uri()}\n" for wheel in WHEELS))
    return ["-c", str(constraints)]


def as_installed(session: nox.Session) -> list[str]:
    """Constraints that keep what the session has installed from an index."""
    listed = session.run("uv", "pip", "freeze", "--quiet", external=True, silent=True)
    constraints = Path(session.create_tmp()) / "installed.txt"
    constraints.write_text("".join(line + "\n" for line in listed.splitlines() if "==" in line))
    return ["-c", str(constraints)]


def install(session: nox.Session, wanted: list[str], *tools: str) -> None:
    """Installs built wheels, and what else is asked for."""
    build(session)
    session.install(*built_alone(session), *(f"towerpack-{wheel}" for wheel in wanted), *tools)
    # Where no byte code may be written, each of the tests' processes compiles TensorFlow anew: 40 s apiece.
    session.env["PYTHONDONTWRITEBYTECODE"] = None


def measure(session: nox.Session, names: list[str], arguments: list[str]) -> None:
    """Runs benchmarks, and fails after the last one if any missed a target."""
    missed = []
    for name in names:
        command = ["python", f"benchmarks/{name}.py", *arguments]
        try:
            session.run(*command, env={"TF_CPP_MIN_LOG_LEVEL": "2"})
        except nox.command.CommandFailed:
            missed.append(name)
    if missed:
        session.error(f"failed, or missed a target: {', '.join(missed)}")


def show(session: nox.Session, names: list[str]) -> None:
    """Runs benchmarks for a moment, in which their figures mean nothing: side by side, the longest first."""
    env = {"TF_CPP_MIN_LOG_LEVEL": "2"}
    together = [name for name in names if name not in ALONE_TO_SHOW]
    longest_first = sorted(together, key=lambda name: (*LONG_TO_SHOW, name).index(name))
    commands = [["python", f"benchmarks/{name}.py", "--smoke"] for name in longest_first]
    run_side_by_side(session, *commands, env=env)
    for name in ALONE_TO_SHOW.intersection(names):
        session.run("python", f"benchmarks/{name}.py", "--smoke", env=env)


def run_side_by_side(
    session: nox.Session, *commands: list[str], env: dict[str, str] | None = None, silent: bool = False
) -> None:
    """Runs commands two at a time, and fails after the last one if any failed.

    Args:
        session: the session.
        commands: programs with their arguments, the longest first.
        env: what to add to their environment.
        silent: print what failed alone, and not what each command has printed when it ends.
    """

    def run(command: list[str]) -> str | None:
        name = " ".join(command[:2])
        try:
            printed = session.run(*command, env=env, silent=True)
        except nox.command.CommandFailed:  # nox has shown what it printed
            return name
        if not silent:
            session.log(f"{name} has ended:\n{printed}")
        return None

    with ThreadPoolExecutor(2) as executor:
        failed = [name for name in executor.map(run, commands) if name]
    if failed:
        session.error(f"failed: {', '.join(failed)}")


def run_copied_tests(
    session: nox.Session,
    tests: Path,
    files: list[str] | None = None,
    also: list[Path] | None = None,
    spread: str | None = None,
    by: list[str] | None = None,
) -> None:
    """Runs tests from a copy, so that no source of the repository is in reach.

    Args:
        session: the session.
        tests: the folder.
        files: those of its files to run, or all.
        also: other folders that the tests need beside them.
        spread: how pytest-xdist divides the tests between two processes; all in one, if `None`.
        by: a program with its arguments that runs pytest as a module.
    """
    place = Path(session.create_tmp()) / "copy"
    shutil.rmtree(place, ignore_errors=True)
    for source in [tests, *(also or [])]:
        shutil.copytree(
            source, place / source.name, ignore=shutil.ignore_patterns("__pycache__", "train_log")
        )
    shutil.copy(ROOT / "pyproject.toml", place)
    session.chdir(place)
    targets = [f"{tests.name}/{file}" for file in files] if files else [tests.name]
    workers = ["-n", "2", "--dist", spread] if spread else []
    command = [*(by or []), "pytest", *workers, *targets, *session.posargs]
    session.run(*command, env={"TF_CPP_MIN_LOG_LEVEL": "2"})


def check_contents(session: nox.Session, wheel: str) -> None:
    """Looks for the files that a wheel owes its users."""
    with zipfile.ZipFile(built(wheel)) as archive:
        names = archive.namelist()
        top = {name.split("/")[0] for name in names}
        (info,) = (name for name in top if name.endswith(".dist-info"))
        if top != {f"towerpack_{wheel}", info}:
            session.error(f"{wheel}: unexpected top-level entries {sorted(top)}")
        for owed in (f"towerpack_{wheel}/py.typed", f"{info}/licenses/LICENSE"):
            if owed not in names:
                session.error(f"{wheel}: {owed} is missing")
        metadata = archive.read(f"{info}/METADATA").decode()
        if f"# towerpack-{wheel}" not in metadata:
            session.error(f"{wheel}: the README is missing from the metadata")
