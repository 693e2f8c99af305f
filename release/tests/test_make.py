"""A release is complete or does not happen, and stays local; all on repositories of the test."""

from __future__ import annotations

import datetime
import json
import subprocess
from pathlib import Path

import pytest
from release.artifacts import leave_out_local_places
from release.changelog import has_entry, misnamed, write_section
from release.make import main
from release.record import second_tree
from release.tree import git, in_the_way
from release.wheels import WHEELS

DAY = datetime.date(2030, 1, 2)


def commit(root: Path) -> None:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "Change something")


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def fragment(root: Path, wheel: str, name: str, text: str) -> None:
    (root / "packages" / wheel / "changes" / name).write_text(text)


def make(versions: dict[str, str], place: Path, out: Path) -> list[Path]:
    """Stands for builds, which take seconds each."""
    out.mkdir()
    files = []
    for wheel, version in versions.items():
        files.append(out / f"{wheel}-{version}.whl")
        files[-1].write_text((place / "packages" / wheel / "CHANGELOG.md").read_text())
    return files


def state(root: Path) -> tuple[str, str, str, str]:
    questions = (["rev-parse", "HEAD"], ["tag", "--list"], ["worktree", "list"], ["status", "--porcelain"])
    first, tags, trees, changed = (git(root, *question) for question in questions)
    return first, tags, trees, changed.replace("?? dist/", "")


def test_a_release_is_a_commit_and_a_tag_here_alone(repository: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    git(repository, "clone", "--quiet", "--bare", ".", str(elsewhere))
    git(repository, "remote", "add", "origin", str(elsewhere))
    fragment(repository, "dataflow", "show.feature.md", "`show` draws images.\n")
    commit(repository)
    before, published = git(repository, "rev-parse", "HEAD"), git(elsewhere, "show-ref")
    assert main(["dataflow", "0.2.0"], repository, make) == 0
    assert git(repository, "tag", "--list") == "towerpack-dataflow-v0.2.0"
    assert git(repository, "rev-parse", "main^") == before
    assert git(repository, "rev-parse", "towerpack-dataflow-v0.2.0^{commit}") == git(
        repository, "rev-parse", "main"
    )
    assert git(repository, "log", "-1", "--format=%s") == "Release towerpack-dataflow 0.2.0"
    changed = git(repository, "diff", "--name-only", "HEAD^").split()
    assert changed == [
        "api/dataflow.json",
        "packages/dataflow/CHANGELOG.md",
        "packages/dataflow/changes/show.feature.md",
    ]
    assert [path.name for path in (repository / "dist" / "release").iterdir()] == ["dataflow-0.2.0.whl"]
    assert git(elsewhere, "show-ref") == published
    assert len(git(repository, "worktree", "list").splitlines()) == 1


def test_what_fails_leaves_everything_as_it_was(repository: Path) -> None:
    def fail(versions: dict[str, str], place: Path, out: Path) -> list[Path]:
        raise subprocess.CalledProcessError(1, ["twine", "check"])

    before = state(repository)
    with pytest.raises(subprocess.CalledProcessError, match="twine"):
        main(["dataflow", "0.2.0"], repository, fail)
    assert state(repository) == before


def test_the_branch_must_not_have_moved(repository: Path) -> None:
    def move(versions: dict[str, str], place: Path, out: Path) -> list[Path]:
        (repository / "new").write_text("")
        commit(repository)
        return make(versions, place, out)

    with pytest.raises(subprocess.CalledProcessError, match="ff-only"):
        main(["dataflow", "0.2.0"], repository, move)
    assert git(repository, "tag", "--list") == ""


def test_a_dry_run_makes_the_files_of_all_and_changes_nothing(repository: Path) -> None:
    before = state(repository)
    assert main(["--dry"], repository, make) == 0
    assert state(repository) == before
    made = {path.name for path in (repository / "dist" / "release").iterdir()}
    assert made == {f"{wheel}-0.2.0.whl" for wheel in WHEELS}
    assert main(["--dry", "layers"], repository, make) == 0
    (file,) = (repository / "dist" / "release").iterdir()
    assert "(unreleased)" not in file.read_text()


def test_a_dry_run_leaves_a_release_as_it_was_made(repository: Path) -> None:
    assert main(["layers", "0.2.0"], repository, make) == 0
    fragment(repository, "layers", "more.fix.md", "Mended.")
    commit(repository)
    assert main(["--dry", "layers"], repository, make) == 0
    assert "Mended" not in (repository / "dist" / "release" / "layers-0.2.0.whl").read_text()


@pytest.mark.parametrize("words", [[], ["dataflow"], ["--dry", "dataflo"], ["dataflow", "0.2.0", "now"]])
def test_other_words_are_refused(
    repository: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words, repository, make) == 2
    assert f"received {words}" in capsys.readouterr().err


def test_what_is_in_the_way_is_said(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = state(repository)
    assert main(["dataflow", "0.3.0"], repository, make) == 1
    assert (
        "dataflow: packages/dataflow/pyproject.toml has version 0.2.0, not 0.3.0" in capsys.readouterr().err
    )
    assert state(repository) == before


def hindrances(root: Path, wheel: str = "dataflow", version: str = "0.2.0", *, dry: bool = False) -> str:
    return "\n".join(in_the_way(wheel, version, root, dry=dry))


def test_nothing_is_in_the_way(repository: Path) -> None:
    assert hindrances(repository) == ""


def test_the_moment_is_in_the_way(repository: Path) -> None:
    (repository / "new").write_text("")
    git(repository, "checkout", "--quiet", "-b", "other")
    assert "1 files are not committed, such as 'new'" in hindrances(repository)
    assert "the branch is 'other'" in hindrances(repository)
    assert hindrances(repository, dry=True) == ""


def test_users_are_told_where_the_source_is(repository: Path) -> None:
    edit(repository / "packages" / "dataflow" / "pyproject.toml", "[project.urls]", "[tool.urls]")
    commit(repository)
    assert "has no [project.urls]: say where source and issues are" in hindrances(repository)


def test_the_wheels_that_it_needs_are_released_before(repository: Path) -> None:
    assert (
        hindrances(repository, "inputsource")
        == "it needs towerpack-dataflow 0.2, of which there is no release yet"
    )
    git(repository, "tag", "towerpack-dataflow-v0.2.3")
    assert hindrances(repository, "inputsource") == ""


def set_version(root: Path, version: str) -> None:
    edit(root / "packages" / "dataflow" / "pyproject.toml", 'version = "0.2.0"', f'version = "{version}"')
    edit(root / "packages" / "dataflow" / "CHANGELOG.md", "## 0.2.0", f"## {version}")
    commit(root)


@pytest.mark.parametrize(
    ("version", "found"),
    [
        ("0.2.1", ""),
        ("0.2.0", "0.2.0 does not come after 0.2.0, which is released"),
        ("0.1.9", "0.1.9 does not come after 0.2.0, which is released"),
        ("0.2", "the version is written '0.2'; expected three numbers"),
        ("0.2.01", "the version is written '0.2.01'; expected three numbers"),
        ("two", "'two' is no version"),
    ],
)
def test_the_order_of_versions(repository: Path, version: str, found: str) -> None:
    git(repository, "tag", "towerpack-dataflow-v0.2.0")
    git(repository, "tag", "towerpack-layers-v0.9.0")
    if version not in {"0.2.0", "two"}:
        set_version(repository, version)
    said = hindrances(repository, version=version)
    assert found in said and bool(found) == bool(said)


def test_a_breaking_change_takes_a_minor_version(repository: Path) -> None:
    git(repository, "tag", "towerpack-dataflow-v0.2.0")
    fragment(repository, "dataflow", "gone.breaking.md", "`use` is gone.")
    set_version(repository, "0.2.1")
    said = hindrances(repository, version="0.2.1")
    assert said == "a fragment is of type 'breaking': 0.2.1 must be a new minor version after 0.2.0"


def test_pins_follow_the_minor_version(repository: Path) -> None:
    set_version(repository, "0.3.0")
    said = hindrances(repository, version="0.3.0")
    assert said == (
        "packages/inputsource/pyproject.toml requires 'towerpack-dataflow>=0.2,<0.3';"
        " expected >=0.3,<0.4 for dataflow"
    )
    edit(repository / "packages" / "inputsource" / "pyproject.toml", ">=0.2,<0.3", ">=0.3,<0.4")
    assert hindrances(repository, version="0.3.0", dry=True) == ""


def test_there_is_something_to_say(repository: Path) -> None:
    edit(repository / "packages" / "dataflow" / "CHANGELOG.md", "First release.\n\n- A flow.\n", "")
    assert "say what is new for users" in hindrances(repository, dry=True)
    fragment(repository, "dataflow", "a-flow.feature.md", "A flow.")
    assert hindrances(repository, dry=True) == ""


def test_a_fragment_has_a_type(repository: Path) -> None:
    fragment(repository, "dataflow", "a-flow.md", "A flow.")
    (said,) = misnamed("dataflow", repository)
    assert said.startswith("packages/dataflow/changes/a-flow.md is called neither <words>.breaking.md, ")
    assert said in hindrances(repository, dry=True)


def test_there_is_no_such_wheel(repository: Path) -> None:
    assert hindrances(repository, "data").startswith("there is no wheel 'data'; there are dataflow, ")


def test_a_section_of_fragments_comes_before_what_is_there(repository: Path) -> None:
    fragment(repository, "dataflow", "show.feature.md", "`show` draws images,\nand boxes.\n")
    fragment(repository, "dataflow", "gone.breaking.md", "`use` is gone: call `apply`.")
    fragment(repository, "dataflow", "again.feature.md", "It `runs` again.")
    commit(repository)
    write_section("dataflow", "0.2.0", repository, DAY)
    text = (repository / "packages" / "dataflow" / "CHANGELOG.md").read_text()
    assert text == (
        "# Changelog of towerpack-dataflow\n\n<!-- The next release goes here. -->\n\n"
        "## 0.2.0 (2030-01-02)\n\n"
        "### Breaking\n\n- `use` is gone: call `apply`.\n\n"
        "### New\n\n- It `runs` again.\n- `show` draws images,\n  and boxes.\n\n"
        "First release.\n\n- A flow.\n"
    )
    assert [path.name for path in (repository / "packages" / "dataflow" / "changes").iterdir()] == [
        "README.md"
    ]
    assert has_entry("dataflow", "0.2.0", repository) and not has_entry("dataflow", "0.2.1", repository)


def test_a_section_that_is_there_gets_its_day(repository: Path) -> None:
    write_section("dataflow", "0.2.0", repository, DAY)
    text = (repository / "packages" / "dataflow" / "CHANGELOG.md").read_text()
    assert "\n## 0.2.0 (2030-01-02)\n\nFirst release.\n" in text


def test_the_list_of_what_is_installed_names_no_place_of_this_machine(tmp_path: Path) -> None:
    elsewhere, here = {"url": "https://example.org"}, {"url": "file:///tmp/towerpack_layers-0.2.0.whl"}
    components = [{"name": "attrs", "externalReferences": [elsewhere, here]}, {"name": "numpy"}]
    file = tmp_path / "layers.cdx.json"
    file.write_text(json.dumps({"bomFormat": "CycloneDX", "components": components}))
    leave_out_local_places(file)
    first, second = json.loads(file.read_text())["components"]
    assert first["externalReferences"] == [elsewhere] and second["name"] == "numpy"


def test_the_second_tree_goes_when_something_fails(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), second_tree(tmp_path / "second", repository) as place:
        assert (place / "packages").is_dir()
        1 / 0  # noqa: B018
    assert not (tmp_path / "second").exists()
