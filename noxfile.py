"""The checks, builds, examples and benchmarks of Towerpack. `nox` alone runs the checks for every change.

The wheels, tools and tests of each session are in sessions.toml.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any

import nox
from uv import find_uv_bin

ROOT = Path(__file__).parent
DIST = ROOT / "dist"
WHEELS = ("dataflow", "layers", "inputsource", "callbacks", "trainers", "compat")
# The versions of all tools that the checks were seen to pass with; `nox -s "release(pin)"` moves them.
PINNED = ROOT / "tools.txt"
TABLE = nox.project.load_toml(ROOT / "sessions.toml")
GROUPS = nox.project.load_toml(ROOT / "pyproject.toml")["dependency-groups"]
BENCHMARKS = sorted(path.stem for path in (ROOT / "benchmarks").glob("[a-z]*.py"))
PAGES = [str(path.relative_to(ROOT)) for pattern in TABLE["pages"] for path in sorted(ROOT.glob(pattern))]
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2"}
# The arguments of pytest for the options of sessions.toml.
WORDS = {"spread": "-n2 --dist", "timeout": "--timeout", "marked": "-m", "cases": "--cases"}
BUILT: set[str] = set()  # the wheels that this run of nox has built

# pyenv's commands exist for all its Pythons, and start those alone that this names.
if shutil.which("pyenv"):
    listed = subprocess.check_output(["pyenv", "versions", "--bare"], text=True)
    chosen = os.environ.get("PYENV_VERSION", "").split(":")
    os.environ["PYENV_VERSION"] = ":".join(filter(None, [*chosen, *reversed(listed.split())]))

nox.needs_version = ">=2025.2"
nox.options.default_venv_backend = "uv"
nox.options.download_python = "never"
# A missing interpreter of `pythons` is reported as a skipped session.
nox.options.error_on_missing_interpreters = False
# What failed is then the last thing printed; --no-stop-on-first-error shows the rest too.
nox.options.stop_on_first_error = True
nox.options.sessions = TABLE["default"]


def each(group: str) -> Any:
    """Parametrizes a session by the entries of a group of sessions.toml."""
    return nox.parametrize("name", list(TABLE[group]), ids=list(TABLE[group]))


# ---- the usual sessions


@nox.session
def lint(session: nox.Session) -> None:
    """Style, types (of users, too), arrows between and inside the wheels, dialect, names."""
    # Editable, since these tools read the sources; `isolated` finds files missing from a wheel.
    editable = [arg for extras in TABLE["extras"].values() for arg in ("-e", str(ROOT / "packages" / extras))]
    session.install(*pinned("lint", "release"), *editable)
    many, lines = {"{pages}": PAGES}, TABLE["lint"]["commands"]
    commands = ([arg for word in line for arg in many.get(word, [word])] for line in lines)
    run_side_by_side(session, *commands)


@nox.session
def wheels(session: nox.Session) -> None:
    """Builds sdists and wheels, and looks inside the wheels."""
    build(session)
    session.install(*pinned("build"))
    for wheel in WHEELS:
        session.run("check-wheel-contents", "--toplevel", f"towerpack_{wheel}", str(built(wheel)))
        session.run("python", "checks/wheel_contents.py", wheel, str(built(wheel)))


@nox.session
@nox.parametrize("wheel", WHEELS, ids=WHEELS)
def isolated(session: nox.Session, wheel: str) -> None:
    """Tests one built wheel with only the dependencies of its metadata; `-- --every-case` with all cases."""
    groups = ("test", "stores") if wheel == "dataflow" else ("test",)
    install(session, [f"@{wheel}"], *pinned(*groups))
    run_copied_tests(session, f"packages/{wheel}/tests", spread="loadfile", **TABLE["isolated"])


@nox.session
@each("integration")
def integration(session: nox.Session, name: str) -> None:
    """Composes installed wheels on real data; each combination in a separate environment."""
    run_entry(session, TABLE["integration"][name])


@nox.session(python=TABLE["versions"]["pythons"])
def pythons(session: nox.Session) -> None:
    """Trains, is killed and resumes with another Python; without a global lock, flows alone are tested.

    `-s isolated -P 3.13` runs the tests of the wheels.
    """
    if str(session.python).endswith("t"):
        # The newest with wheels for such an interpreter; pinned versions may have none.
        build(session)
        session.install("--only-binary", ":all:", str(built("dataflow")), *GROUPS["test"])
        check = "import sys; assert not sys._is_gil_enabled(), 'this interpreter has its lock'"
        session.run("python", "-c", check)
        run_copied_tests(session, "packages/dataflow/tests", ["flow", "operators", "runtime"])
        return
    install(session, ["dataflow[datasets]", "callbacks[plot]", "trainers"], *pinned("test"))
    options = {"also": ["examples"], "spread": "worksteal"}
    run_copied_tests(session, "integration_tests", TABLE["versions"]["tests"], **options)


@nox.session
def docs(session: nox.Session) -> None:
    """Runs every block of the READMEs and the documentation, their tests, and docstrings' examples."""
    install(session, TABLE["site"]["wheels"], *pinned("docs"))
    # Those of compat change the process that imports them.
    packages = [f"towerpack_{wheel}" for wheel in WHEELS if wheel != "compat"]
    # From elsewhere: blocks that train write their logs where they are run.
    session.chdir(session.create_tmp())
    pytest = ["pytest", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), "-p", "no:cacheprovider"]
    tests = str(ROOT / "docs" / "tests")
    # The examples in there run in `peers(torch)`.
    unseen = ["--ignore-glob", "/*/interop/torch/*", "--ignore-glob", "/*/interop/jax*"]
    pages = [str(ROOT / page) for page in PAGES]
    blocks = [[*pytest, "-p", "blocks", *half] for half in (pages[::2], pages[1::2])]
    examples = [*pytest, "--doctest-modules", *unseen, "--pyargs", *packages]
    run_side_by_side(session, *blocks, examples, [*pytest, tests], env={"PYTHONPATH": tests}, silent=True)


# ---- those that are large, or take minutes


@nox.session
@each("peers")
def peers(session: nox.Session, name: str) -> None:
    """Compares with other libraries, or runs on them."""
    if name == "browser" and not (shutil.which("chromium") and shutil.which("chromedriver")):
        session.run("apt-get", "update", "--quiet", external=True)
        packages = ["--no-install-recommends", "chromium", "chromium-driver"]
        session.run("apt-get", "install", "--yes", *packages, external=True)
    run_entry(session, TABLE["peers"][name])


@nox.session
@each("endurance")
def endurance(session: nox.Session, name: str) -> None:
    """Kills, floods, repeats and mutates, for minutes; `promises` does a little of it in each run of nox."""
    run_entry(session, TABLE["endurance"][name])


@nox.session
@each("examples")
def examples(session: nox.Session, name: str) -> None:
    """Runs the scripts of examples/."""
    run_entry(session, TABLE["examples"][name])


@nox.session
def demo(session: nox.Session) -> None:
    """Trains LeNet on handwritten digits, through the five installed wheels."""
    run_entry(session, TABLE["demo"])


@nox.session
@nox.parametrize("name", ["lowest", "newest"], ids=["lowest", "newest"])
def versions(session: nox.Session, name: str) -> None:
    """Tests on the oldest and on the newest releases of dependencies."""
    (install_lowest if name == "lowest" else install_newest)(session)
    for wheel in WHEELS:
        run_copied_tests(session, f"packages/{wheel}/tests", spread="loadfile")
    run_copied_tests(session, "integration_tests", TABLE["integration"]["full"]["files"], also=["examples"])


@nox.session
@nox.parametrize("wheel", WHEELS, ids=WHEELS)
def coverage(session: nox.Session, wheel: str) -> None:
    """Prints how many branches of a wheel its own tests take, in all processes; under 95 % fails."""
    install(session, [f"@{wheel}"], *pinned("test", "stores", "coverage"))
    session.env["COVERAGE_FILE"] = str(Path(session.create_tmp()).resolve() / "coverage" / "data")
    shutil.rmtree(Path(session.env["COVERAGE_FILE"]).parent, ignore_errors=True)
    by = ["coverage", "run", "--rcfile", str(ROOT / "pyproject.toml"), "--source", f"towerpack_{wheel}", "-m"]
    run_copied_tests(session, f"packages/{wheel}/tests", spread="loadfile", by=by)
    session.chdir(ROOT)
    session.run("coverage", "combine", "--quiet")
    session.run("coverage", "report", "--fail-under", "95")


@nox.session
@each("release")
def release(session: nox.Session, name: str) -> None:
    """Makes a release, `"release(make)" -- dataflow 0.2.0`, or a part of it; it pushes nothing."""
    for part in ("hosting", "repeated") if name in {"make", "check"} else ():
        run_entry(session, TABLE["release"][part])
    run_entry(session, TABLE["release"][name])


@nox.session
def site(session: nox.Session) -> None:
    """Builds the site of the documentation and of all docstrings; a warning fails."""
    run_entry(session, TABLE["site"])


@nox.session
@each("bench")
def bench(session: nox.Session, name: str) -> None:
    """Measures against peers and limits; `-- loop` measures one alone, `bench(smoke)` all for a moment."""
    entry = TABLE["bench"][name]
    elsewhere = {each for other in TABLE["bench"].values() for each in other.get("names", ())}
    names = entry.get("names", [each for each in BENCHMARKS if each not in elsewhere])
    chosen = [arg for arg in session.posargs if arg in BENCHMARKS]
    if name == "smoke":
        install_entry(session, entry)
        show(session, chosen or BENCHMARKS)
        return
    if chosen and name not in chosen:  # the name of a place stands for all of its benchmarks
        names = [each for each in names if each in chosen]
    if not names:
        session.skip(f"not asked for: {', '.join(chosen)} needs another environment")
    install_entry(session, entry)
    if entry.get("tensorpack"):
        session.install("--no-deps", "tensorpack==0.11")
    missed, rest = [], [arg for arg in session.posargs if arg not in BENCHMARKS]
    for each in names:
        try:
            session.run("python", f"benchmarks/{each}.py", *rest, env=QUIET)
        except nox.command.CommandFailed:
            missed.append(each)
    if missed:
        session.error(f"failed, or missed a target: {', '.join(missed)}")


# ---- how the sessions do it


def run_entry(session: nox.Session, entry: dict[str, Any]) -> None:
    """Installs the requirements of an entry of sessions.toml, and runs its tests and commands."""
    install_entry(session, entry)
    tmp = Path(session.create_tmp()).resolve() / "scratch"
    shutil.rmtree(tmp, ignore_errors=True)
    tmp.mkdir()
    for name, value in entry.get("env", {}).items():
        session.env[name] = os.environ.get(name, value.format(dist=DIST))
    suites = {**entry.get("tests", {}), **({"integration_tests": entry["files"]} if "files" in entry else {})}
    for folder, files in suites.items():
        options = {key: entry[key] for key in ("also", *WORDS) if key in entry}
        run_copied_tests(session, folder, files, **options)
    for command in entry.get("commands", ()):
        words = [word.format(tmp=tmp, root=ROOT) for word in command]
        if words[-1] == "*":
            words[-1:] = session.posargs
        session.chdir(tmp if entry.get("scratch") else ROOT)
        session.run(*words)


def install_entry(session: nox.Session, entry: dict[str, Any]) -> None:
    """Installs the wheels, tools and other requirements of an entry."""
    if "wheels" in entry:
        install(session, entry["wheels"], *pinned(*entry.get("groups", ())), *entry.get("tools", ()))
    elif wanted := [*pinned(*entry.get("groups", ())), *entry.get("tools", ())][2:]:
        session.install("-c", str(PINNED), *wanted)
    if requirements := entry.get("pip"):
        session.install("pip")
        session.run_install("python", "-m", "pip", "install", "--quiet", *requirements)
    for wheel in entry.get("alone", ()):
        build(session)
        session.install("--no-deps", str(built(wheel)))
    if entry.get("from_sources"):
        session.run("uv", "pip", "uninstall", *(f"towerpack-{wheel}" for wheel in WHEELS), external=True)


def install(session: nox.Session, wanted: list[str], *tools: str) -> None:
    """Installs built wheels (`@`: with their extras of sessions.toml) and tools."""
    build(session)
    named = [TABLE["extras"][each[1:]] if each.startswith("@") else each for each in wanted]
    session.install(*built_alone(session), *(f"towerpack-{wheel}" for wheel in named), *tools)
    # Where no byte code may be written, each of the tests' processes compiles TensorFlow again.
    session.env["PYTHONDONTWRITEBYTECODE"] = None
    session.run("python", str(ROOT / "release" / "byte_code.py"), session.virtualenv.location, silent=True)


def install_lowest(session: nox.Session) -> None:
    """Installs the oldest releases that the metadata of the wheels admit."""
    build(session)
    projects = [arg for wheel in WHEELS for arg in ("-r", f"packages/{wheel}/pyproject.toml")]
    lists = [each.rstrip("]").partition("[")[2].split(",") for each in TABLE["extras"].values()]
    extras = [arg for name in sorted({*chain(*lists)}) for arg in ("--extra", name)]
    # A server of the tests does not bear the dateutil that matplotlib would bring.
    dateutil = "python-dateutil>=2.9,<3"
    session.install("--resolution", "lowest-direct", *built_alone(session), *projects, *extras, dateutil)
    session.install("--no-deps", *(str(built(wheel)) for wheel in WHEELS))
    listed = session.run("uv", "pip", "freeze", "--quiet", external=True, silent=True)
    installed = Path(session.create_tmp()) / "installed.txt"
    installed.write_text("".join(line + "\n" for line in listed.splitlines() if "==" in line))
    session.install(*GROUPS["test"], *GROUPS["stores"], "-c", str(installed))


def install_newest(session: nox.Session) -> None:
    """Installs TensorFlow's nightly build, or else pre-releases of all dependencies."""
    install(session, [f"@{wheel}" for wheel in WHEELS], *pinned("test", "stores"))
    upgrade = ["uv", "pip", "install", "--prerelease", "allow", "--upgrade"]
    nightly = TABLE["versions"]["nightly"]  # another name, by which the wheels do not require it
    found = session.run(*upgrade, "--dry-run", nightly, success_codes=[0, 1], external=True, silent=True)
    if "No solution found" in found:
        session.run(*upgrade, "tensorflow", "keras", "numpy", external=True)
    else:
        session.run("uv", "pip", "uninstall", "tensorflow", external=True)
        session.run(*upgrade, nightly, external=True)
    session.run("python", "-c", "import tensorflow as tf; print(tf.__version__)")


def build(session: nox.Session) -> None:
    """Builds all wheels once per run of nox."""
    if BUILT:
        return
    BUILT.update(WHEELS)
    # The site and its pictures stay, which take minutes to make.
    for path in DIST.glob("towerpack_*"):
        path.unlink()
    # Without the session's own settings, or uv would fill its environment instead of hatch's.
    env = {"UV_PYTHON": None, "VIRTUAL_ENV": None}
    hatch = ["tool", "run", "--constraints", str(PINNED), "hatch"]
    session.run_install(find_uv_bin(), *hatch, "build", "--all", external=True, env=env)


def pinned(*groups: str) -> list[str]:
    """Returns the tools of these groups of pyproject.toml, and the file of their versions."""
    return ["-c", str(PINNED), *(tool for group in groups for tool in GROUPS[group])]


def built(wheel: str) -> Path:
    """Returns the wheel file just built."""
    (path,) = DIST.glob(f"towerpack_{wheel}-*.whl")
    return path


def built_alone(session: nox.Session) -> list[str]:
    """Returns constraints that keep any index from answering for one of the built wheels."""
    constraints = Path(session.create_tmp()) / "built-wheels.txt"
    constraints.write_text("".join(f"towerpack-{wheel} @ {built(wheel).as_uri()}\n" for wheel in WHEELS))
    return ["-c", str(constraints)]


def show(session: nox.Session, names: list[str]) -> None:
    """Runs benchmarks for a moment, in which their figures mean nothing: side by side, the longest first."""
    session.chdir(ROOT)
    longest, apart = TABLE["bench"]["smoke"]["longest"], TABLE["bench"]["smoke"]["one_by_one"]
    ordered = sorted(set(names).difference(apart), key=lambda name: ((*longest, name).index(name), name))
    commands = (["python", f"benchmarks/{name}.py", "--smoke"] for name in ordered)
    run_side_by_side(session, *commands, env=QUIET)
    for name in set(apart).intersection(names):
        session.run("python", f"benchmarks/{name}.py", "--smoke", env=QUIET)


def run_side_by_side(session: nox.Session, *commands: list[str], silent: bool = False, **more: Any) -> None:
    """Runs commands two at a time, the longest first, and fails after the last one if any failed.

    With `silent`, only the output of failed commands is printed.
    """

    def run(command: list[str]) -> str | None:
        name = " ".join(command[:2])
        try:
            printed = session.run(*command, silent=True, **more)
        except nox.command.CommandFailed:  # nox has printed the output
            return name
        if not silent:
            session.log(f"{name} has ended:\n{printed}")
        return None

    with ThreadPoolExecutor(2) as executor:
        failed = [name for name in executor.map(run, commands) if name]
    if failed:
        session.error(f"failed: {', '.join(failed)}")


def run_copied_tests(session: nox.Session, folder: str, files: Iterable[str] = ("",), **options: Any) -> None:
    """Runs tests, some files of a folder's, from a copy, so that no source of the repository is in reach.

    The options are `also` and those of `WORDS` as in sessions.toml, and `by`, a program with its arguments
    that runs pytest as a module.
    """
    session.chdir(ROOT)  # the temporary directory is relative, and another suite may have run
    place = Path(session.create_tmp()).resolve() / "copy"
    shutil.rmtree(place, ignore_errors=True)
    for source in (folder, *options.pop("also", ())):
        ignored = shutil.ignore_patterns("__pycache__", "train_log")
        shutil.copytree(ROOT / source, place / Path(source).name, ignore=ignored)
    for file in ("pyproject.toml", "conftest.py"):
        shutil.copy(ROOT / file, place)
    session.chdir(place)
    by = options.pop("by", ())
    arguments = [word for name, value in options.items() for word in (*WORDS[name].split(), str(value))]
    targets = [f"{Path(folder).name}/{file}" for file in files]
    session.run(*by, "pytest", *arguments, *targets, *session.posargs, env=QUIET)
