"""The commands as typed in a shell."""

import json
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

from towerpack_callbacks.__main__ import main
from towerpack_callbacks.checkpoint import load_variables, write_checkpoint
from towerpack_callbacks.monitors import ScalarHistory
from towerpack_callbacks.writing import write_archive, write_picture

ERRORS = [
    (["plot", "nowhere"], r"there is no nowhere \(yet\); expected the log directory"),
    (["plot", "empty"], r"empty contains no run yet: neither run.jsonl nor stats.jsonl"),
    (["plot", "run", "empty", "-o", "out.html"], r"empty contains no run yet"),
    (["plot", "run", "--keys", "xyz"], "no statistic matches 'xyz'; there are: accuracy, cost"),
    (["plot", "run", "-o", "missing/out.html"], "missing"),
    (["checkpoint", "ls", "nowhere"], "there is no directory nowhere"),
    (["checkpoint", "ls", "empty"], "empty contains no checkpoint"),
    (["checkpoint", "vars", "nowhere"], "there is no checkpoint nowhere"),
    (["checkpoint", "vars", "empty"], "empty refers to a TensorFlow checkpoint that does not exist"),
    (["checkpoint", "vars", "run", "--keys", "xyz"], "no variable matches 'xyz'; there are: file, new"),
    (["checkpoint", "diff", "run", "nowhere"], "there is no directory nowhere"),
    (["checkpoint", "diff", "run", "empty"], "empty is not a checkpoint and contains none"),
    (["checkpoint", "export", "nowhere"], "there is no checkpoint nowhere"),
    (
        ["checkpoint", "export", "run", "--keys", "xyz"],
        "no variable matches 'xyz'; there are: file, new, text, weight",
    ),
    (["checkpoint", "export", "run"], "variable text holds text, which an archive cannot store"),
    (["checkpoint", "export", "run", "--keys", "file", "-o", "missing/out.npz"], "missing"),
]

MISUSES = [
    ([], "the following arguments are required: COMMAND"),
    (["paint"], "invalid choice: 'paint'"),
    (["plot"], "the following arguments are required: LOGDIR"),
    (["plot", "run", "-o", "out.pdf"], r"expected a name that ends in .html or .png, received 'out.pdf'"),
    (["plot", "run", "--keys", "("], r"'\(' is not a regular expression"),
    (["plot", "run", "--smooth", "1"], "expected a number of at least 0 and below 1, received '1'"),
    (["plot", "run", "--smooth", "much"], "received 'much'"),
    (["plot", "run", "--theme", "pink"], "invalid choice: 'pink'"),
    (["plot", "run", "--serve", "-o", "out.html"], "argument -o/--output: not allowed with argument --serve"),
    (["plot", "run", "--port", "8000"], "argument --port: expected with --serve"),
    (["plot", "run", "--serve", "--port", "65536"], "expected a port from 0 to 65535, received '65536'"),
    (["plot", "run", "--serve", "--port", "-1"], "expected a port from 0 to 65535, received '-1'"),
    (["checkpoint"], "the following arguments are required: ACTION"),
    (["checkpoint", "diff", "run"], "the following arguments are required: B"),
    (
        ["checkpoint", "export", "run", "-o", "out.zip"],
        "expected a name that ends in .npz, received 'out.zip'",
    ),
]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A directory with a run of two checkpoints, and an empty one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    run = tmp_path / "run"
    variables = {
        "bias": np.zeros(3, np.float32),
        "file": np.arange(4),
        "text": np.array([b"a", b"b"], object),
        "weight": np.ones((2, 2), np.float32),
    }
    state = {"loop": {"global_step": 10}, "callbacks": {"MaxSaver('a')": {"best": 0.5}}, "seed": 7}
    write_checkpoint(run / "model-10", variables, state)
    del variables["bias"]
    variables["weight"] = np.full((2, 2), 1.25, np.float32)
    variables["file"] = np.arange(4, dtype=np.int32)
    variables["new"] = np.array(np.nan)
    state = {"loop": {"global_step": 200}, "callbacks": {"MaxSaver('a')": {"best": 0.75}}, "seed": 7}
    write_checkpoint(run / "model-200", variables, state)
    (run / "latest").symlink_to("model-200")
    (run / "max-a").symlink_to("model-10")
    rows = [{"epoch_num": 1, "global_step": k, "cost": 1 / k, "accuracy": k} for k in (1, 2)]
    (run / "stats.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def out_of(capsys, *arguments):
    assert main(arguments) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


@pytest.mark.parametrize(("arguments", "message"), ERRORS, ids=[" ".join(case[0]) for case in ERRORS])
def test_failures_are_one_line_and_status_1(place, capsys, arguments, message):
    assert main(arguments) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.fullmatch(f"error: .*{message}.*\n", captured.err)


@pytest.mark.parametrize(("arguments", "message"), MISUSES, ids=[" ".join(case[0]) for case in MISUSES])
def test_invalid_arguments_have_status_2(place, capsys, arguments, message):
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    assert re.search(message, capsys.readouterr().err)


def test_a_page_is_the_default(place, capsys):
    assert out_of(capsys, "plot", "run") == "run/report.html: 2 statistics of 1 run\n"
    assert (place / "run" / "report.html").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("paths", "page"),
    [
        (["run/stats.jsonl"], "run/report.html"),
        (["run", "runs/a", "runs/b"], "report.html"),
        (["runs/a", "runs/b"], "runs/report.html"),
        (["{place}/runs/a", "runs/b"], "{place}/runs/report.html"),
    ],
    ids=repr,
)
def test_a_page_is_beside_its_runs(place, capsys, paths, page):
    for name in ("a", "b"):
        (place / "runs" / name).mkdir(parents=True)
        (place / "runs" / name / "stats.jsonl").write_text('{"global_step": 1, "cost": 2}\n')
    assert out_of(capsys, "report", *(path.format(place=place) for path in paths)).startswith(
        f"{page.format(place=place)}: "
    )
    assert [str(found) for found in place.rglob("*.html")] == [str(place / page.format(place=place))]


def test_a_page_has_pictures_too(place, capsys):
    write_picture(place / "run", "samples", 3, np.zeros((2, 2, 1), np.uint8))
    out = out_of(capsys, "plot", "run", "--keys", "samples", "--keys", "cost")
    assert out == "run/report.html: 1 statistics and 1 series of pictures of 1 run\n"


@pytest.mark.slow
def test_several_files_at_once(place, capsys):
    out = out_of(capsys, "plot", "run", "run", "-o", "a.html", "-o", "b.PNG", "--keys", "cost", "--log")
    assert out == "a.html: 1 statistics of 2 runs\nb.PNG: 1 statistics of 2 runs\n"
    assert (place / "b.PNG").read_bytes().startswith(b"\x89PNG")


def test_invalid_lines_are_noted(place, capsys):
    with (place / "run" / "stats.jsonl").open("a") as file:
        file.write("garbage\n")
    assert main(["plot", "run"]) == 0
    assert capsys.readouterr().err == "note: run/stats.jsonl: 1 lines are not statistics\n"


def test_a_picture_without_matplotlib(place, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["plot", "run", "-o", "out.png"]) == 1
    assert "pip install 'towerpack-callbacks[plot]'" in capsys.readouterr().err


def test_checkpoints_are_listed_with_size_state_and_marks(place, capsys):
    (place / "run" / ".writing-model-300-x").mkdir()
    (place / "run" / "model-20").mkdir()
    index = place / "run" / "model-10" / "variables.index"
    index.write_bytes(index.read_bytes()[:-1])
    lines = out_of(capsys, "checkpoint", "ls", "run").splitlines()
    rows = [re.split(r"  +", line.strip()) for line in lines]
    assert rows[0] == ["checkpoint", "step", "size", "written", "state", "marks"]
    assert [row[:2] + row[4:] for row in rows[1:-1]] == [
        ["model-10", "10", "incomplete: variables.index", "max-a"],
        ["model-20", "20", "incomplete: manifest.json"],
        ["model-200", "200", "complete", "latest"],
    ]
    assert rows[-1][0] == ".writing-model-300-x" and rows[-1][-1] == "unfinished"
    assert re.fullmatch(r"\d+ bytes", rows[3][2])
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", rows[3][3])


def test_checksums_are_compared_if_asked(place, capsys):
    data = place / "run" / "model-10" / "variables.data-00000-of-00001"
    data.write_bytes(bytes([data.read_bytes()[0] ^ 1]) + data.read_bytes()[1:])
    assert out_of(capsys, "checkpoint", "ls", "run").count("complete") == 2
    lines = out_of(capsys, "checkpoint", "ls", "run", "--verify").splitlines()
    assert "damaged" in lines[1] and "verified" in lines[2]


def test_one_checkpoint_can_be_listed(place, capsys):
    lines = out_of(capsys, "checkpoint", "ls", "run/model-200").splitlines()
    assert len(lines) == 2 and lines[1].endswith("complete  latest")


def test_a_difference_names_variables_and_states(place, capsys):
    out = out_of(capsys, "checkpoint", "diff", "run/model-10", "run")
    assert re.sub(r" +", " ", out).splitlines()[3:] == [
        "variables: 1 equal, 1 with other values, 1 with other shape or dtype, 1 only in A, 1 only in B",
        " only in A bias float32[3]",
        " only in B new float64[]",
        " other kind file int64[4] -> int32[4]",
        " other values weight max |A - B| = 0.25",
        "",
        "state: 2 entries differ",
        " callbacks / MaxSaver('a') / best 0.5 -> 0.75",
        " loop / global_step 10 -> 200",
    ]


def test_a_difference_of_histories_is_in_words(place, capsys):
    history = ScalarHistory()
    for step, name in ((1, "a"), (2, "b")):
        history.process_scalar("cost", 1 / step, step)
        write_checkpoint(
            place / name / "model-1",
            {"x": np.ones(1)},
            {"callbacks": {"ScalarHistory": history.state_dict()}},
        )
    last = out_of(capsys, "checkpoint", "diff", "a", "b").splitlines()[-1]
    expected = 'callbacks / ScalarHistory / cost  "1 values, the last 1" -> "2 values, the last 0.5"'
    assert last.strip() == expected


def test_a_checkpoint_does_not_differ_from_itself(place, capsys):
    lines = out_of(capsys, "checkpoint", "diff", "run", "run/latest").splitlines()
    assert lines[3:] == [
        "variables: 4 equal, 0 with other values, 0 with other shape or dtype, 0 only in A, 0 only in B",
        "",
        "state: equal",
    ]


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ([1.0, np.nan], [1.0, 2.0], "not comparable: NaN or text"),
        ([1.0, np.nan], [3.0, np.nan], r"max \|A - B\| = 2"),
        ([np.inf, 1.0], [np.inf, 1.5], r"max \|A - B\| = 0.5"),
        ([True, False], [True, True], r"max \|A - B\| = 1"),
        ([1 + 1j, 0], [1 + 0j, 0], r"max \|A - B\| = 1"),
    ],
)
def test_distances_of_unusual_values(place, capsys, first, second, words):
    write_checkpoint(place / "a" / "model-1", {"x": np.array(first)}, {})
    write_checkpoint(place / "b" / "model-1", {"x": np.array(second)}, {})
    assert re.search(words, out_of(capsys, "checkpoint", "diff", "a", "b"))


def test_variables_are_listed_with_their_number_of_parameters(place, capsys):
    out = out_of(capsys, "checkpoint", "vars", "run/model-10")
    assert [re.split(r"  +", line) for line in out.splitlines()] == [
        ["name", "shape", "dtype", "parameters"],
        ["bias", "[3]", "float32", "3"],
        ["file", "[4]", "int64", "4"],
        ["text", "[2]", "string", "2"],
        ["weight", "[2, 2]", "float32", "4"],
        ["4 variables, 13 parameters, 0.00 MiB"],
    ]


@pytest.mark.parametrize("source", ["run", "all.npz"])
def test_few_variables_of_any_kind_of_checkpoint_are_listed(place, capsys, source):
    write_archive(place / "all.npz", load_variables(place / "run" / "model-200") | {"text": np.ones(2)})
    lines = out_of(capsys, "checkpoint", "vars", source, "--keys", "^w", "--keys", "ew$").splitlines()
    assert [line.split()[0] for line in lines] == ["name", "new", "weight", "2"]
    assert lines[-1] == "2 variables, 5 parameters, 0.00 MiB"


def test_variables_are_exported_by_name(place, capsys):
    out = out_of(capsys, "checkpoint", "export", "run/model-10", "--keys", "^[bw]", "--keys", "file")
    assert re.fullmatch(r"variables.npz: 3 variables, [\d,]+ bytes\n", out)
    with np.load(place / "variables.npz") as archive:
        assert sorted(archive.files) == ["bias", "file", "weight"]
        np.testing.assert_array_equal(archive["file"], np.arange(4))
    assert sorted(load_variables(place / "variables.npz")) == ["bias", "file", "weight"]
    assert not [name for name in os.listdir(place) if name.endswith(".writing")]


def test_types_that_numpy_lacks_are_exported_as_float32(place, capsys):
    import tensorflow as tf

    half = np.array([1.5, -2.0]).astype(tf.bfloat16.as_numpy_dtype)
    write_checkpoint(place / "half" / "model-1", {"scope/half": half}, {})
    out_of(capsys, "checkpoint", "export", "half", "-o", "half.npz")
    with np.load(place / "half.npz") as archive:
        assert archive["scope/half"].dtype == np.float32
        np.testing.assert_array_equal(archive["scope/half"], [1.5, -2.0])


@pytest.mark.slow
@pytest.mark.timeout(300)  # it imports TensorFlow twice
def test_ctrl_c_and_an_ended_reader_leave_no_traceback(place):
    # Background processes of shells ignore Ctrl-C, and so do their children, except through env.
    program = ["env", "--default-signal=INT", sys.executable, "-m", "towerpack_callbacks"]
    os.mkfifo(place / "slow")  # reading it waits, until the signal comes
    child = subprocess.Popen([*program, "plot", "slow"], stderr=subprocess.PIPE, text=True)
    with child, open(place / "slow", "w"):
        child.send_signal(signal.SIGINT)
        err = child.communicate(timeout=60)[1]
    assert child.returncode == 130
    assert err.endswith("interrupted\n") and "Traceback" not in err

    with subprocess.Popen(
        [*program, "checkpoint", "ls", "run"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        child.stdout.close()
        err = child.stderr.read()
    assert child.returncode == 0
    assert b"Traceback" not in err and b"Broken pipe" not in err


@pytest.mark.slow
@pytest.mark.parametrize("words", [["--help"], ["checkpoint", "ls", "run"], ["plot", "run"]], ids=" ".join)
def test_commands_without_tensorflow_do_not_import_it(place, words):
    command = [sys.executable, "-X", "importtime", "-m", "towerpack_callbacks", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "towerpack_callbacks" in imported
    assert "tensorflow" not in imported
    assert all(line.startswith("import time:") for line in done.stderr.splitlines())
