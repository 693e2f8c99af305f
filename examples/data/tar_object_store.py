"""Read samples of a tar file in an object store, in random order, by ranges of bytes.

    python tar_object_store.py                          starts a local S3 server
    python tar_object_store.py s3://bucket/train.tar    an existing file with its index

A second pass comes from the cache on this machine's disk. The last line is the rate. It needs
`pip install "towerpack-dataflow[s3]"`, and for the local server `boto3` and `moto[server]`.
"""

import argparse
import os
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from towerpack_dataflow import MultiThreadRunner, TarData, write_tar
from towerpack_dataflow.storage import UrlCache


@contextmanager
def local_store(folder, samples):
    """Starts a server, and yields the URL of a tar file in it."""
    import boto3
    from moto.server import ThreadedMotoServer

    rng = np.random.default_rng(0)
    content = (
        {"__key__": f"{at:05}", "bin": rng.bytes(50_000), "cls": str(at % 10)} for at in range(samples)
    )
    write_tar(content, folder / "train.tar")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        settings = {
            "ENDPOINT_URL": f"http://{host}:{port}",
            "ACCESS_KEY_ID": "user",
            "SECRET_ACCESS_KEY": "key",
        }
        for name, value in {**settings, "DEFAULT_REGION": "us-east-1", "REGION": "us-east-1"}.items():
            os.environ[f"AWS_{name}"] = value
        client = boto3.client("s3")
        client.create_bucket(Bucket="bucket")
        for name in ("train.tar", "train.tar.index"):
            client.upload_file(str(folder / name), "bucket", name)
        yield "s3://bucket/train.tar"
    finally:
        server.stop()


def load(sample):
    """Converts a sample to a datapoint."""
    return [np.frombuffer(sample["bin"], np.uint8), int(sample["cls"])]


def read(name, flow):
    """Reads a pass, and prints its rate."""
    begin, count, size = time.perf_counter(), 0, 0
    for values, _ in flow:
        count += 1
        size += values.nbytes
    seconds = time.perf_counter() - begin
    print(f"{name}: {count} samples, {count / seconds:.0f} samples/s, {size / seconds / 1e6:.0f} MB/s")


def run(url, folder, threads):
    """Reads the file twice."""
    flow = MultiThreadRunner(TarData(url, load, shuffle=True, cache=UrlCache(folder)), threads)
    read("from the store", flow)
    read("from the cache", flow)


def main():
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url", nargs="?", help="URL of a tar file (default: a local server)")
    parser.add_argument("--samples", type=int, default=400, help="number of samples on the local server")
    parser.add_argument("--threads", type=int, default=4)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.url is not None:
            run(options.url, folder / "cache", options.threads)
            return
        with local_store(folder, options.samples) as url:
            run(url, folder / "cache", options.threads)


if __name__ == "__main__":
    main()
