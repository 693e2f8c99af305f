"""Small files in the original formats, and a server that can be made to fail."""

import gzip
import io
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import cv2
import numpy as np
import pytest


def idx(array):
    """Bytes of an array in MNIST's format."""
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return gzip.compress(bytes((0, 0, 8, array.ndim)) + sizes + array.tobytes(), mtime=0)


def tar(**members):
    """Bytes of a packed archive."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


@pytest.fixture
def write_mnist(tmp_path):
    """Writes training files of MNIST's format, and returns their images and labels."""

    def write(number=7):
        images = np.random.default_rng(0).integers(0, 256, (number, 28, 28), np.uint8)
        labels = np.arange(number, dtype=np.uint8) % 10
        (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(idx(images))
        (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(idx(labels))
        return images, labels

    return write


class Server:
    """Serves one content at any path, with byte ranges.

    Attributes:
        content: the bytes.
        cut: after how many bytes of an answer the connection is closed.
        ranges: the range of each request.
    """

    def __init__(self):
        self.content, self.cut, self.ranges, self.honours_ranges = b"", None, [], True
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.answer(self)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/data.bin"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def answer(self, request):
        wanted = request.headers.get("Range")
        self.ranges.append(wanted)
        first = int(wanted[6:-1]) if wanted and self.honours_ranges else 0
        if first >= len(self.content):
            request.send_error(416)
            return
        rest = self.content[first:]
        request.send_response(206 if first else 200)
        request.send_header("Content-Length", str(len(rest)))
        request.end_headers()
        request.wfile.write(rest[: self.cut])

    def close(self):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def server():
    serving = Server()
    yield serving
    serving.close()


@pytest.fixture
def write_image():
    """Writes a picture of one colour, in the format that the suffix names, and makes its folder."""

    def write(path, colour=(200, 30, 90), shape=(8, 6)):
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.full((*shape, 3), colour[::-1], np.uint8)
        path.write_bytes(cv2.imencode(path.suffix, pixels)[1].tobytes())
        return path

    return write
