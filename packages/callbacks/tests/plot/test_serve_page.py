"""The page of `plot --serve`: a real server on a loopback port, growing files, and hostile requests."""

import contextlib
import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request

import numpy as np
import pytest

from towerpack_callbacks.__main__ import main
from towerpack_callbacks.writing import write_picture

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


@contextlib.contextmanager
def serving(directory, *arguments):
    """Runs the command in a directory and yields the port; at the end, Ctrl-C stops it without a word."""
    # Background processes of shells ignore Ctrl-C, and so do their children, except through env.
    command = ["env", "--default-signal=INT", sys.executable, "-m", "towerpack_callbacks", "plot", "--serve"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": directory}
    with subprocess.Popen([*command, *arguments], **pipes) as child:
        try:
            line = child.stdout.readline()
            [port] = re.findall(r"^the page of the runs, until Ctrl-C: http://127\.0\.0\.1:(\d+)/$", line)
            yield int(port)
        finally:
            child.send_signal(signal.SIGINT)
            out, err = child.communicate(timeout=60)
        assert (child.returncode, out, err) == (0, "", "")


def get(port, stamp=None):
    """Returns status, stamp and text of the page."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/", headers={} if stamp is None else {"If-None-Match": stamp})
    answer = connection.getresponse()
    with contextlib.closing(connection):
        return answer.status, answer.headers["ETag"], answer.read().decode()


def data(page):
    [content] = re.findall(r'<script id="data" type="application/json">(.*)</script>', page)
    return json.loads(content)


def append(directory, name, text):
    directory.mkdir(exist_ok=True)
    with (directory / name).open("a") as file:
        file.write(text)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Directory and port of a server of one finished run, beside a file that no one may see."""
    place = tmp_path_factory.mktemp("served")
    append(place / "run", "stats.jsonl", '{"global_step": 1, "cost": 2}\n')
    (place / "secret.txt").write_text("secret")
    files = sorted(place.rglob("*"))
    with serving(place, "run") as port:
        yield place, port
    assert sorted(place.rglob("*")) == files  # the server writes nothing


def ask(port, request, address="127.0.0.1"):
    """Sends bytes and returns all of the answer."""
    with socket.create_connection((address, port), timeout=60) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))


OWN = b"Host: localhost:9\r\n"


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403),
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1.evil.example\r\n\r\n", 403),
        (b"GET / HTTP/1.1\r\nHost: localhost@evil.example\r\n\r\n", 403),
        (b"GET / HTTP/1.1\r\nHost: localhost:80:80\r\n\r\n", 403),
        (b"GET / HTTP/1.1\r\n" + OWN + b"Host: evil.example\r\n\r\n", 403),
        (b"GET / HTTP/1.0\r\n\r\n", 403),
        (b"HEAD / HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403),
        (b"GET /../secret.txt HTTP/1.1\r\n" + OWN + b"\r\n", 404),
        (b"GET /%2e%2e/secret.txt HTTP/1.1\r\n" + OWN + b"\r\n", 404),
        (b"GET //etc/passwd HTTP/1.1\r\n" + OWN + b"\r\n", 404),
        (b"GET /run/stats.jsonl HTTP/1.1\r\n" + OWN + b"\r\n", 404),
        (b"GET http://evil.example/ HTTP/1.1\r\n" + OWN + b"\r\n", 404),
        (b"POST / HTTP/1.1\r\n" + OWN + b"Content-Length: 1\r\n\r\nx", 501),
        (b"PUT /run/stats.jsonl HTTP/1.1\r\n" + OWN + b"Content-Length: 1\r\n\r\nx", 501),
        (b"DELETE / HTTP/1.1\r\n" + OWN + b"\r\n", 501),
        (b"GET /\r\n\r\n", 403),
        (b"GET / HTTP/9.9\r\n\r\n", 505),
        (b"\0\xff\xfe nonsense\r\n\r\n", 400),
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\n" + OWN + b"X: y\r\n" * 200 + b"\r\n", 431),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_hostile_requests(served, request_, status):
    answer = ask(served[1], request_)
    # A request without a version, or with an unknown one, is answered without a header.
    assert re.search(rb"^HTTP/1\.0 %d |<p>Error code: %d<" % (status, status), answer)
    assert b"secret" not in answer and b"<h1>run</h1>" not in answer and b"cost" not in answer


def test_the_page_and_its_header(served):
    head, _, page = ask(served[1], b"GET /?again HTTP/1.1\r\nHost: LOCALHOST\r\n\r\n").partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.0 200 ") and b"<h1>run</h1>" in page
    assert b"Content-Length: %d" % len(page) in head and b"X-Content-Type-Options: nosniff" in head
    assert b"frame-ancestors 'none'" in head and b"Access-Control" not in head
    alone, _, nothing = ask(served[1], b"HEAD / HTTP/1.1\r\n" + OWN + b"\r\n").partition(b"\r\n\r\n")
    assert re.sub(b"Date: .*", b"", alone) == re.sub(b"Date: .*", b"", head) and nothing == b""


def test_clients_that_go_and_clients_that_stay(served):
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", served[1])) as connection:
            connection.sendall(b"GET / HTT")
            # An abortive close: the server reads a reset.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    with socket.create_connection(("127.0.0.1", served[1])):  # says nothing
        assert get(served[1])[0] == 200


def test_other_addresses_of_the_machine_are_not_served(served):
    with pytest.raises(ConnectionRefusedError):
        ask(served[1], b"GET / HTTP/1.1\r\n" + OWN + b"\r\n", "127.0.0.2")


def test_a_port_in_use(served, monkeypatch, capsys):
    monkeypatch.chdir(served[0])
    assert main(["plot", "run", "--serve", "--port", str(served[1])]) == 1
    assert re.fullmatch(
        rf"error: .*; pass another --port, or 0 for a free one: '127.0.0.1:{served[1]}'\n",
        capsys.readouterr().err,
    )


def test_a_page_grows_with_its_runs(tmp_path):
    append(tmp_path / "old", "stats.jsonl", '{"global_step": 1, "cost": 2}\n')
    new = tmp_path / "new"
    with serving(tmp_path, "old", "new", "--keys", "cost|accuracy|samples") as port:
        status, stamp, page = get(port)
        assert status == 200 and data(page)["stamp"] == stamp
        assert "No run yet." in page and "there is no new (yet)" in page
        assert data(page)["keys"] == ["cost"]
        assert get(port, stamp) == (304, stamp, "")

        start = {"event": "start", "format": 1, "time": 1, "epoch": 0, "step": 0, "max_epoch": 3}
        append(new, "run.jsonl", json.dumps(start) + "\n")
        append(new, "stats.jsonl", '{"global_step": 5, "accur')  # half of a line
        status, begun, page = get(port, stamp)
        assert status == 200 and begun != stamp
        assert "No run yet." not in page and "in epoch 0 of 3; started once." in page
        assert data(page)["runs"][1] == {"name": "new", "curves": {}, "pictures": {}}

        append(new, "stats.jsonl", 'acy": 0.5}\n')
        write_picture(new, "samples", 5, np.zeros((2, 2, 1), np.uint8))
        status, grown, page = get(port, begun)
        assert status == 200 and grown not in (stamp, begun)
        assert data(page)["keys"] == ["accuracy", "cost"] and data(page)["series"] == ["samples"]
        assert data(page)["runs"][1]["curves"] == {"accuracy": {"x": [5], "y": [0.5]}}

        (new / "run.jsonl").write_bytes(b"\xff torn \0\n")
        (new / "stats.jsonl").unlink()
        status, cut, page = get(port, grown)
        assert status == 200 and "run.jsonl: 1 lines are not events" in page
        assert data(page)["keys"] == ["cost"]
        assert get(port, cut)[0] == 304
    assert sorted(path.name for path in new.iterdir()) == ["images", "run.jsonl"]


def test_a_picture_that_cannot_be_read_delays_the_page(tmp_path):
    append(tmp_path / "run", "stats.jsonl", '{"global_step": 1, "cost": 2}\n')
    (tmp_path / "run" / "images" / "samples").mkdir(parents=True)
    picture = tmp_path / "run" / "images" / "samples" / "00000001.png"
    picture.symlink_to("/proc/self/mem")  # a file whose first byte cannot be read
    with serving(tmp_path, "run", "--keys", "nothing") as port:
        assert get(port)[0] == 200  # no picture is shown, as no name matches yet
    with serving(tmp_path, "run") as port:
        assert get(port)[0] == 503
        picture.unlink()
        assert get(port)[0] == 200


def test_a_run_that_starts_in_a_served_directory(tmp_path):
    with serving(tmp_path, ".") as port:
        assert "No run yet." in get(port)[2]
        append(tmp_path / "one", "stats.jsonl", '{"global_step": 1, "cost": 2}\n')
        assert [run["name"] for run in data(get(port)[2])["runs"]] == ["one"]
        append(tmp_path / "two", "stats.jsonl", '{"global_step": 1, "cost": 2}\n')
        assert [run["name"] for run in data(get(port)[2])["runs"]] == ["one", "two"]


def test_names_that_match_later(tmp_path):
    append(tmp_path / "run", "stats.jsonl", '{"global_step": 1, "cost": 2}\n')
    with serving(tmp_path, "run", "--keys", "accuracy") as port:
        _, _, page = get(port)
        assert data(page)["keys"] == [] and "no statistic matches &#x27;accuracy&#x27;" in page
        append(tmp_path / "run", "stats.jsonl", '{"global_step": 2, "accuracy": 1}\n')
        with urllib.request.urlopen(f"http://localhost:{port}/", timeout=60) as answer:
            assert data(answer.read().decode())["keys"] == ["accuracy"]
